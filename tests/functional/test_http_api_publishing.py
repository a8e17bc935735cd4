"""Posts to a publish channel: what their sender is told of the messages that they became."""

import jsonschema
import pytest

from console.http_api import openapi
from integration.models import OutboxRow
from tests.support.channels import a_channel
from tests.support.http_api import Partner, a_partner, a_token, forget

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
PATH = "/api/publish/Orders"


@pytest.fixture
def partner() -> Partner:
    found = a_partner()
    found.token, _ = a_token(found.system, may_publish=True)
    forget()
    return found


def told(partner: Partner, id_: str) -> dict:
    answer = partner.ask(id_)
    assert answer.status_code == 200
    jsonschema.validate(answer.json(), openapi.SCHEMAS["Fate"])
    return answer.json()


def test_a_post_is_as_far_as_the_slowest_of_its_messages(partner: Partner) -> None:
    a_channel("Orders", "shop", "store")
    said = partner.post({"n": 1}, path=PATH, headers={"Idempotency-Key": "o-1"}).json()
    partner.post({"n": 2}, path=PATH)
    id_, [first, second] = said["message_id"], said["messages"].values()
    assert told(partner, id_)["state"] == "accepted"
    rows = OutboxRow.objects.filter(message_id__in=[first, second])
    rows.filter(message_id=first).update(state="PUBLISHED", published_at="2026-01-02T03:04:05Z")
    assert told(partner, id_)["state"] == "accepted"
    rows.filter(message_id=second).update(state="DEAD", dead_code="MSG_SIZE_TOO_LARGE")
    assert (told(partner, id_)["state"], told(partner, id_)["code"]) == (
        "held",
        "MSG_SIZE_TOO_LARGE",
    )
    rows.update(state="PUBLISHED", published_at="2026-01-02T03:04:05Z", dead_code="")
    for name in (id_, "o-1"):
        assert told(partner, name)["state"] == "in_kafka"
        assert told(partner, name)["message_id"] == id_
    rows.delete()
    assert told(partner, id_)["state"] == "in_kafka"


def test_a_post_that_nobody_gets_and_a_repeated_one_are_told_as_before(partner: Partner) -> None:
    a_channel("Orders")
    for is_repeated in (False, True):
        said = partner.post({"n": 1}, path=PATH, headers={"Idempotency-Key": "o-1"}).json()
        assert (said["messages"], said["repeated"]) == ({}, is_repeated)
    assert told(partner, said["message_id"])["state"] == "accepted"
