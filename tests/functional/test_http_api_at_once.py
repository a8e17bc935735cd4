"""Services that are run at once: one transaction, its result, and nothing left of a failure."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.db import connection

from devstack import ports
from integration.http_api.at_once import run_at_once
from integration.http_api.bodies import Piece
from integration.http_api.errors import MAY_BE_STORED, CallFailedError
from integration.http_api.receipts import Post
from integration.models import (
    EnterpriseService,
    MessageError,
    MessageTrack,
    ObjectStructure,
    OutboxRow,
    Receipt,
    StoredObject,
)
from tests.support.http_api import SERVICE, Partner, a_partner, problem
from tests.support.lossy_proxy import Break, LossyProxy
from tests.support.rows import a_queue_row
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ES = {"address": "es"}


@pytest.fixture
def partner() -> Partner:
    return a_partner("")


def tracks() -> list[str]:
    return list(MessageTrack.objects.order_by("offset").values_list("ended", flat=True))


@contextmanager
def database_at(port: int) -> Iterator[None]:
    """New sessions of this thread go to the port."""
    place = connection.settings_dict
    known = place["HOST"], place["PORT"]
    connection.close()
    place["HOST"], place["PORT"] = "127.0.0.1", str(port)
    try:
        yield
    finally:
        connection.close()
        place["HOST"], place["PORT"] = known


@contextmanager
def breaking(when: Break) -> Iterator[None]:
    """The session breaks at its first commit."""
    known = connection.settings_dict
    address = f"postgresql://{known['USER']}@{known['HOST']}:{known['PORT']}/{known['NAME']}"
    with LossyProxy(address, when, 1) as wire, database_at(urlsplit(wire.url).port or 0):
        yield
        assert wire.broken.is_set()


class TestSuccess:
    def test_the_handler_has_run_when_it_is_answered(self, partner: Partner) -> None:
        answer = partner.post({"n": 7}, **ES)
        assert answer.status_code == 200
        said = answer.json()
        assert (said["state"], said["ended"], said["count"]) == ("applied", {"applied": 1}, 1)
        effect = Effect.objects.get()
        assert (effect.n, effect.message_id, effect.interface) == (7, said["message_id"], SERVICE)
        assert tracks() == ["APPLIED"]
        assert partner.ask(said["message_id"]).json()["state"] == "applied"

    def test_arrival_numbers_rise_so_that_newness_holds(self, partner: Partner) -> None:
        partner.post([{"n": 1}, {"n": 2}], **ES)
        partner.post({"n": 3}, **ES)
        found = Effect.objects.order_by("n").values_list("arrival_batch", "arrival_place")
        (first, a), (second, b), (third, c) = found
        assert first == second < third
        assert (a, b, c) == (0, 1, 0)

    def test_what_is_published_goes_out_with_it(self, partner: Partner) -> None:
        a_queue_row("continuous", name="out", direction="outbound")
        body = {"n": 1, "do": "publish"}
        first = partner.post(body, headers={"Idempotency-Key": "p"}, **ES)
        assert first.status_code == 200
        assert OutboxRow.objects.get().message_id
        partner.post(body, headers={"Idempotency-Key": "p"}, **ES)
        assert OutboxRow.objects.count() == Effect.objects.count() == 1

    def test_documents_are_stored_and_older_ones_superseded(self, partner: Partner) -> None:
        structure = ObjectStructure.objects.create(name="S", key_paths=["$.id"], version_path="$.v")
        EnterpriseService.objects.create(interface="Docs", structure=structure)
        how = {**ES, "service": "Docs"}
        assert partner.post({"id": "a", "v": 2}, **how).json()["state"] == "applied"
        assert partner.post({"id": "a", "v": 1}, **how).json()["state"] == "superseded"
        assert partner.post([{"id": "a", "v": 1}, {"id": "b", "v": 1}], **how).json()["ended"] == {
            "applied": 1,
            "superseded": 1,
        }
        assert StoredObject.objects.count() == 2

    def test_a_repetition_gets_the_first_answer_without_a_second_run(
        self, partner: Partner
    ) -> None:
        own = {"Idempotency-Key": "x"}
        first = partner.post({"n": 1}, headers=own, **ES)
        again = partner.post({"n": 1}, headers=own, **ES)
        assert again.json() == {**first.json(), "repeated": True}
        assert Effect.objects.count() == 1
        problem(partner.post({"n": 2}, headers=own, **ES), 409, "SENDER_ID_REUSED")


class TestFailure:
    @pytest.mark.parametrize(
        ("deed", "status", "code"),
        [
            ("permanent", 422, "REFUSED"),
            ("transient", 503, "TRANSIENT_ERROR"),
            ("missing", 409, "MISSING_DEPENDENCY"),
            ("outage", 503, "OUTAGE"),
            ("bug", 503, "KEY_ERROR"),
            ("swallow", 422, "SWALLOWED_DATABASE_ERROR"),
            ("orphan", 409, "FOREIGN_KEY_VIOLATION"),
            ("deadlock", 503, "DEADLOCK"),
            ("timeout", 503, "STATEMENT_TIMEOUT"),
        ],
    )
    def test_each_kind_is_told_and_leaves_a_track_only(
        self, partner: Partner, deed: str, status: int, code: str
    ) -> None:
        answer = partner.post(
            [{"n": 1}, {"n": 2, "do": deed}], headers={"Idempotency-Key": "k"}, **ES
        )
        said = problem(answer, status, code)
        assert said["detail"].startswith("Message 2 of 2: ") or deed == "orphan"
        assert ("Retry-After" in answer) == (status == 503)
        assert "Traceback" not in str(said)
        assert not Effect.objects.exists()
        assert not Receipt.objects.exists()
        assert not MessageError.objects.exists()
        assert not OutboxRow.objects.exists()
        assert tracks() == ["REFUSED"]

    def test_after_a_failure_the_same_id_may_be_sent_again(self, partner: Partner) -> None:
        own = {"Idempotency-Key": "k"}
        problem(partner.post({"n": 1, "do": "permanent"}, headers=own, **ES), 422, "REFUSED")
        assert partner.post({"n": 1}, headers=own, **ES).status_code == 200

    def test_the_time_is_bounded(self, partner: Partner) -> None:
        body = b'{"n": 1, "do": "statement", "seconds": 30}'
        post = Post(
            system_id=partner.system.pk, system=partner.system.name, service=SERVICE, body=body
        )
        with pytest.raises(CallFailedError) as caught:
            run_at_once(post, [Piece(body)], limit=timedelta(seconds=2))
        assert caught.value.failure.code == "CALL_TIMED_OUT"
        assert not Effect.objects.exists()
        assert tracks() == ["REFUSED"]

    def test_switched_off_it_says_so_and_where_it_would_wait(self, partner: Partner) -> None:
        EnterpriseService.objects.update(enabled=False)
        said = problem(partner.post({"n": 1}, **ES), 503, "SWITCHED_OFF")
        assert "/esqueue/" in said["next_step"]
        EnterpriseService.objects.update(enabled=True)
        partner.system.enabled = False
        partner.system.save()
        problem(partner.post({"n": 1}, **ES), 503, "SWITCHED_OFF")
        problem(partner.post({"n": 1}, service="Nobody", **ES), 404, "NO_SUCH_SERVICE")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("sqlstate", "code"), [("40P01", "DEADLOCK"), ("23514", "CHECK_VIOLATION")]
)
def test_what_fails_after_the_commit_undoes_nothing_and_is_not_run_again(
    partner: Partner, sqlstate: str, code: str
) -> None:
    body = {"n": 1, "do": "late", "sqlstate": sqlstate}
    for headers in ({}, {"Idempotency-Key": "k"}):
        answer = partner.post(body, headers=headers, **ES)
        said = problem(answer, 503, code)
        assert said["next_step"].startswith(MAY_BE_STORED)
        assert "Retry-After" in answer
    assert Effect.objects.count() == 2
    assert tracks() == ["APPLIED", "APPLIED"]
    again = partner.post(body, headers={"Idempotency-Key": "k"}, **ES)
    assert (again.status_code, again.json()["repeated"]) == (200, True)
    assert Effect.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        ("transient", "TRANSIENT_ERROR"),
        ("permanent", "REFUSED"),
        ("bug", "KEY_ERROR"),
        ("no_connection", "INTERFACE_ERROR"),
    ],
)
def test_whatever_fails_after_the_commit_may_have_been_stored_and_stands_in_the_log(
    partner: Partner, caplog: pytest.LogCaptureFixture, failure: str, code: str
) -> None:
    said = problem(partner.post({"n": 1, "do": "fail_late", "failure": failure}, **ES), 503, code)
    assert said["next_step"].startswith(MAY_BE_STORED)
    assert Effect.objects.count() == 1
    assert tracks() == ["APPLIED"]
    [line] = [one for one in caplog.records if one.name == "integration.http_api.at_once"]
    assert line.levelname == "ERROR"


@pytest.mark.django_db(transaction=True)
class TestLostSession:
    @pytest.mark.parametrize("when", list(Break))
    def test_a_commit_without_an_answer_may_have_been_stored(
        self, partner: Partner, when: Break
    ) -> None:
        own = {"Idempotency-Key": "k"}
        with breaking(when):
            said = problem(partner.post({"n": 1}, headers=own, **ES), 503, "DATABASE_LOST")
        assert said["next_step"].startswith("It is not known whether the request was stored.")
        assert "REFUSED" not in tracks()
        again = partner.post({"n": 1}, headers=own, **ES)
        assert (again.status_code, again.json()["repeated"]) == (200, when is Break.AFTER)
        assert Effect.objects.count() == 1

    def test_so_may_messages_for_a_queue(self) -> None:
        partner = a_partner()
        with breaking(Break.AFTER):
            said = problem(partner.post([{"n": 1}, {"n": 2}]), 503, "DATABASE_DOWN")
        assert "not known whether the request was stored" in said["detail"]
        assert "Without a key" in said["next_step"]
        assert OutboxRow.objects.count() == 2

    def test_without_a_session_nothing_was_stored(self, partner: Partner) -> None:
        with database_at(ports.choose()):
            said = problem(partner.post({"n": 1}, **ES), 503, "DATABASE_DOWN")
        assert said["detail"].endswith("nothing was stored.")
