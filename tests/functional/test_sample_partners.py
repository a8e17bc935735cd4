"""The sample's way out: orders reach the supplier, the archive and the ledger once each."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from django.test import Client
from django.urls import reverse

from integration.handlers import publish
from integration.models import MessageError, OutboxRow, Provider, Queue
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from integration.selectors.scope import EVERYTHING
from sample import names, partners
from sample.outbound import found_again
from sample.partner import Moods, refusal, serve
from sample.shares import Share, shares
from tests.functional.test_sample import planted_anew  # noqa: F401 - a fixture
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person

CALM = Moods(Random(1), lambda: 0.0, slow_share=0.0)


@pytest.fixture
def files(tmp_path: Path, settings) -> Path:
    settings.SLUICE_FILES_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def supplier(files: Path) -> Iterator[str]:
    server = serve(files / partners.SUPPLIER_FOLDER, CALM)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield partners.supplier_address()
    server.shutdown()
    server.server_close()


def post(address: str, order: dict[str, object], message_id: str) -> int:
    request = urllib.request.Request(  # noqa: S310 - the sample's own server
        f"{address}/orders",
        data=json.dumps(order).encode(),
        headers={"Idempotency-Key": message_id},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        problem.close()
        return problem.code


def an_order(number: int, total: str = "120.50") -> dict[str, object]:
    return {"ponum": f"45{number:05d}", "revision": 1, "vendor": "Lindqvist", "total": total}


# --- the supplier alone -------------------------------------------------------------------------


@pytest.mark.fast
def test_the_supplier_counts_an_order_once_however_often_it_comes(supplier: str) -> None:
    assert post(supplier, an_order(1), "m-1") == 201
    assert post(supplier, an_order(1), "m-1") == 200
    assert post(supplier, an_order(2, total="9000"), "m-2") == 422
    found = partners.supplier_counts(supplier)
    assert found == {"messages": 1, "repeated": 1, "refused": 1, "unavailable": 0}


@pytest.mark.fast
def test_the_supplier_is_found_on_the_port_it_had(files: Path) -> None:
    folder = files / "again"
    first = serve(folder, CALM)
    first.server_close()
    second = serve(folder, CALM)
    second.server_close()
    assert first.server_address == second.server_address


@pytest.mark.fast
def test_the_supplier_is_away_for_twenty_seconds_every_five_minutes() -> None:
    away = [at for at in range(700) if Moods(Random(1), lambda at=at: float(at)).is_away()]
    assert away == [*range(45, 65), *range(345, 365), *range(645, 665)]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("order", "why"),
    [(None, "no purchase order"), ({"ponum": "1", "total": "x"}, "no number"), (an_order(1), "")],
)
def test_the_supplier_says_why_it_refuses(order: object, why: str) -> None:
    assert (why in refusal(order)) if why else refusal(order) == ""


# --- on real servers ----------------------------------------------------------------------------


def run_everything() -> None:
    waiting = OutboxRow.objects.filter(state__in=("PENDING", "STAMPED"))
    run_relay(Provider.objects.get().pk, 0, stop=lambda: not waiting.exists())
    for name in names.TARGETS:
        Queue.objects.filter(name=name).update(stay_seconds=0)
        queue = Queue.objects.get(name=name)
        Kafka(queue.provider.bootstrap_servers).await_decided(queue.topic)
        run_queue(queue.pk)


@pytest.mark.servers
@pytest.mark.usefixtures("planted_anew")
def test_what_was_committed_is_what_the_partners_count(supplier: str) -> None:
    list(found_again())
    partners.forget()
    partners.make_database()
    for number in range(12):
        publish(names.PURCHASE, an_order(number, total="5000" if number == 7 else "99.90"))
    before = {share.queue: share for share in shares(EVERYTHING)}
    assert {share.outbox for share in before.values()} == {12}
    run_everything()
    found = {share.queue: share for share in shares(EVERYTHING)}
    assert found[names.TO_ARCHIVE].partner == found[names.TO_LEDGER].partner == 12
    refused = MessageError.objects.get()
    assert (refused.queue.name, refused.code) == (names.TO_SUPPLIER, "HTTP_REFUSED")
    assert (found[names.TO_SUPPLIER].partner, found[names.TO_SUPPLIER].failed) == (11, 1)
    assert all(share.agrees and share.is_drained and _adds_up(share) for share in found.values())
    client = Client()
    client.force_login(a_person("Viewers"))
    assert client.get(reverse("sample-partners")).text.count("agrees") == 3
    partners.forget()
    assert partners.archive_count() == 0
    assert partners.ledger_count() is None


def _adds_up(share: Share) -> bool:
    ways = (share.outbox, share.kafka, share.failed, share.unknown, share.delivered)
    return share.committed == sum(ways) + share.given_up


@pytest.mark.fast
def test_totals_are_compared_exactly() -> None:
    assert refusal(an_order(1, total=str(Decimal("1200.00")))) == ""
    assert "signature" in refusal(an_order(1, total="1200.01"))
