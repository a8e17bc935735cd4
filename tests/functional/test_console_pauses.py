"""A queue is paused until a person resumes it, or for as long as they say."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.support.rows import a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


def test_a_pause_may_end_by_itself(client: Client) -> None:
    queue = a_queue_row()
    a_place(queue)
    pause = reverse("pause", args=[queue.name])
    for lasts in ("soon", "1 s", "31 d"):
        refused = client.post(pause, {"reason": "stocktaking", "lasts": lasts})
        assert refused.status_code == 422
        assert refused.context["form"].errors.keys() == {"lasts"}
    queue.refresh_from_db()
    assert not queue.paused

    answer = client.post(pause, {"reason": "stocktaking", "lasts": "2 h"})

    assert answer.status_code == 303
    queue.refresh_from_db()
    assert queue.paused_until is not None
    assert timedelta(minutes=119) < queue.paused_until - timezone.now() <= timedelta(hours=2)
    shown = client.get(reverse("queue", args=[queue.name])).text
    assert f"{queue.paused_until:%H:%M UTC on %d %B %Y}: stocktaking" in shown
