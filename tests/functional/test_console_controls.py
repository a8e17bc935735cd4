"""The forms that stop a queue and move its position: what they take, show and refuse."""

import pytest
from django.test import Client
from django.urls import reverse

from console.forms.parameters import PREFIX
from console.models import Limit
from integration.models import ExternalSystem, Gap, QueuePartition
from tests.support.rows import a_blocked_queue, a_held, a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


@pytest.mark.usefixtures("unanswered")
def test_a_queue_is_told_to_stop_and_its_page_says_how_far_it_is(client: Client) -> None:
    queue = a_queue_row("continuous")
    place = a_place(queue)
    page, stop = reverse("queue", args=[queue.name]), reverse("stop-at", args=[queue.name])
    assert "asked-stop" not in client.get(page).text
    for said in (
        {"until": "offset"},
        {"until": "offset", "offset": "-1"},
        {"until": "offset", "offset": "x"},
        {"until": "offset", "offset": "12", "partition": "7"},
        {"until": "never"},
    ):
        assert client.post(stop, said).status_code == 422
    assert client.post(stop, {"until": "offset", "offset": "9"}).status_code == 409

    answer = client.post(stop, {"until": "offset", "offset": "12", "reason": "look at it"})

    assert answer.status_code == 303
    assert QueuePartition.objects.get(pk=place.pk).stop_at == 12
    shown = client.get(page).text
    assert "look at it" in shown
    assert reverse("cancel-stop", args=[queue.name]) in shown
    assert client.post(reverse("cancel-stop", args=[queue.name])).status_code == 303
    assert "asked-stop" not in client.get(page).text
    # Nobody can be asked where the topic ends.
    assert client.post(stop, {"until": "drain"}).status_code == 409


@pytest.mark.usefixtures("unanswered")
def test_a_broker_that_cannot_be_asked_moves_nothing(client: Client) -> None:
    queue, place, _ = a_blocked_queue(paused=True)
    address = reverse("position", args=[queue.name])
    assert client.get(address).status_code == 200
    for query in (
        "to=offset",
        "to=time",
        "to=skip",
        "to=nowhere",
        "to=offset&offset=1&partition=3",
    ):
        shown = client.get(f"{address}?{query}")
        assert shown.context["asked"].errors, query
        assert shown.context["plan"] is None
    shown = client.get(f"{address}?to=beginning")
    assert (shown.status_code, shown.context["plan"]) == (200, None)
    refused = client.post(f"{address}?to=beginning", {"move": ["0:3:10:0"], "reason": "because"})
    assert refused.status_code == 409
    assert QueuePartition.objects.get(pk=place.pk).next_offset == 10
    assert not Gap.objects.exists()


def test_people_with_a_limit_reach_their_own_queues_only() -> None:
    mine, other = (ExternalSystem.objects.create(name=name) for name in ("mine", "other"))
    person = a_person("Operators")
    Limit.objects.create(person=person).systems.add(mine)
    client = Client()
    client.force_login(person)
    for system, status in ((mine, 200), (other, 404)):
        queue = a_queue_row("continuous", system=system)
        place = a_place(queue)
        assert client.get(reverse("position", args=[queue.name])).status_code == status
        said = {"until": "offset", "offset": "12"}
        done = client.post(reverse("stop-at", args=[queue.name]), said).status_code
        assert done == (303 if status == 200 else 404)
        stop = QueuePartition.objects.get(pk=place.pk).stop_at
        assert stop == (12 if status == 200 else None)


def test_a_failure_leads_to_a_replay_of_what_lies_around_it(client: Client) -> None:
    queue = a_queue_row("continuous")
    error = a_held(queue, 25, partition=3)
    shown = client.get(reverse("failure", args=[error.pk]))
    address = shown.context["replay"]
    form = client.get(address).context["form"]
    names = ("queue", "into", "begin", "end")
    said = {name: form.fields[f"{PREFIX}{name}"].initial for name in names}
    assert said == {"queue": queue.name, "into": "queue", "begin": "3:15", "end": "3:36"}
    first = a_held(queue, 2)
    assert "begin=0%3A0" in client.get(reverse("failure", args=[first.pk])).context["replay"]


def test_only_what_lies_in_a_topic_that_is_read_is_replayed(client: Client) -> None:
    errors = a_queue_row(is_error_queue=True)
    outbound = a_queue_row(direction="outbound")
    for queue in (errors, outbound):
        error = a_held(queue)
        assert client.get(reverse("failure", args=[error.pk])).context["replay"] == ""
