"""What tracking and a message's story say when a person decides that a message arrived."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from integration.actions import failures
from integration.actions.errors import StateMismatchError
from integration.delivery.steps import Step
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Unknown
from integration.models import ErrorChange, MessageError, MessageTrack, Queue
from integration.selectors.scope import EVERYTHING
from integration.selectors.tracking.story import story
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import an_endpoint, an_outbound_queue, post, send

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def in_doubt(broker: Kafka, **fields: Any) -> MessageError:
    """A message whose call had no answer, as the engine holds it."""
    queue = an_outbound_queue(broker, **fields)
    post(broker, queue, 1, keys=1)
    send(queue, MemoryDeliverer(script=lambda _: Unknown(text="Timed out.")))
    return MessageError.objects.get(code="DELIVERY_UNKNOWN")


def test_it_gets_the_track_of_a_delivered_one_and_its_story_names_who_decided(
    broker: Kafka,
) -> None:
    row = in_doubt(broker)
    held = MessageTrack.objects.get()
    MessageTrack.objects.update(external_id="PO-1", search_b="SITE", caused_by="order-7")

    failures.arrived(row.pk, version=row.version, actor="ann", reason="Bob sees it.")

    said = MessageTrack.objects.exclude(pk=held.pk).get()
    assert (said.ended, said.message_id, said.external_id) == ("DELIVERED", "m0", "PO-1")
    assert (said.search_a, said.search_b, said.caused_by) == (None, "SITE", "order-7")
    for same in ("queue_id", "partition", "offset", "interface", "key", "kafka_ms"):
        assert getattr(said, same) == getattr(held, same), same
    assert abs(ErrorChange.objects.get().at - said.at) < timedelta(seconds=1)
    found = story("m0", EVERYTHING)
    assert found is not None
    assert found.last is not None
    assert found.last.ended == "DELIVERED"
    decided = [event for event in found.events if "arrived: not sent again" in event.title]
    assert [(event.who, event.text) for event in decided] == [("ann", "Bob sees it.")]
    titles = [event.title for event in found.events]
    assert not [title for title in titles if title.startswith(("Ended", "Read by"))], titles


def test_a_decision_that_comes_too_late_leaves_no_track(broker: Kafka) -> None:
    row = in_doubt(broker)
    with pytest.raises(StateMismatchError):
        failures.arrived(row.pk, version=row.version + 1, actor="ann", reason="Bob sees it.")
    assert MessageTrack.objects.count() == 1


def test_without_tracking_nothing_is_written(broker: Kafka) -> None:
    row = in_doubt(broker, tracks=False)
    failures.arrived(row.pk, version=row.version, actor="ann", reason="Bob sees it.")
    assert not MessageTrack.objects.exists()


class Dead(BaseException):
    """The process is gone."""


class DiesOnceSent:
    """The observer of a run whose process dies when an endpoint has answered."""

    def step(self, step: Step) -> None:
        if step is Step.SENT:
            raise Dead


def to_files(broker: Kafka, kind: str, name: str) -> Queue:
    """A queue with three messages for an endpoint that drops repeats, three to a file."""
    properties = {"file_name": name, "format": "json", "at_once": 3}
    endpoint = an_endpoint(endpoint_type="file", idempotent=True, properties=properties)
    queue = an_outbound_queue(broker, kind, endpoint=endpoint, stay_seconds=0.0)
    post(broker, queue, 3)
    return queue


def delivers(queue: Queue) -> Any:
    assert queue.endpoint is not None
    return opened(queue.endpoint)


@pytest.mark.parametrize("end", ["the process dies", "the answer is lost"])
def test_messages_that_shared_a_file_are_not_written_again_in_other_company(
    broker: Kafka, settings: Any, tmp_path: Path, end: str
) -> None:
    settings.SLUICE_FILES_ROOT = tmp_path
    queue = to_files(broker, "continuous", "{message_id}.json")
    partner = delivers(queue)
    if end == "the process dies":
        with pytest.raises(Dead):
            send(queue, partner, observer=DiesOnceSent())
        await_free_locks()
    else:
        write = partner.deliver

        def raises(messages: Any) -> Any:
            write(messages)
            raise RuntimeError("lost")

        partner.deliver = raises
        send(queue, partner)
    assert [file.name for file in tmp_path.iterdir()] == ["m0.json"]

    send(queue, delivers(queue))

    assert [file.name for file in tmp_path.iterdir()] == ["m0.json"]
    held = MessageError.objects.filter(queue=queue, state="HOLD", code="DELIVERY_UNKNOWN")
    assert held.count() == 3


@pytest.mark.parametrize(
    ("kind", "name"), [("sequential", "{message_id}.json"), ("continuous", "all.json")]
)
def test_a_file_whose_name_depends_on_no_company_is_found_again(
    broker: Kafka, settings: Any, tmp_path: Path, kind: str, name: str
) -> None:
    settings.SLUICE_FILES_ROOT = tmp_path
    queue = to_files(broker, kind, name)
    with pytest.raises(Dead):
        send(queue, delivers(queue), observer=DiesOnceSent())
    await_free_locks()

    send(queue, delivers(queue))

    assert not MessageError.objects.filter(queue=queue).exists()
    assert len(list(tmp_path.iterdir())) == (3 if kind == "sequential" else 1)
