"""Check: a handler that ends its transaction is stopped, or what it left behind is told."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from psycopg import sql as composed

from console.failures.checks import shown
from integration.actions import check as checks
from integration.actions.check import Check, Ending
from integration.handlers.registry import Registration, registry
from integration.message import Message
from integration.models import EnterpriseService, MessageError, Queue
from integration.selectors.masking.covers import UNCOVERED
from tests.support.rows import a_held, a_queue_row
from tests.support.world.models import Effect

# A commit is only one where no test holds a transaction around it.
pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def queue() -> Queue:
    return a_queue_row(
        "continuous", default_service=EnterpriseService.objects.create(interface="E")
    )


@pytest.fixture
def checked(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Check]:
    """Check a message whose handler writes one row before and one after what the test does."""

    def check(deed: Callable[[], Any]) -> Check:
        def handler(_message: Message) -> None:
            write(1)
            deed()
            write(2)

        made = Registration("E", handler, False, False, False, "tests.ending")
        monkeypatch.setattr(registry, "_by_interface", {**registry._by_interface, "E": made})
        error = a_held(queue, payload=b'{"n": 1}', interface="E", headers=[])
        before = MessageError.objects.values().get(pk=error.pk)
        found = checks.check(error.pk, b'{"n": 1}')
        assert MessageError.objects.values().get(pk=error.pk) == before
        assert not connection.in_atomic_block
        return found

    return check


@pytest.fixture(autouse=True)
def no_prepared_transaction_stays() -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
        for (gid,) in cursor.fetchall():
            cursor.execute(f"ROLLBACK PREPARED '{gid}'")


def write(n: int) -> None:
    Effect.objects.create(message_id="m", interface="E", n=n, arrival_batch=1, arrival_place=1)


def written() -> list[int]:
    return list(Effect.objects.order_by("n").values_list("n", flat=True))


def send(statement: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def send_and_go_on(statement: Any) -> None:
    """What careless handlers do with any error."""
    try:
        send(statement)
    except Exception:  # noqa: BLE001 - a handler may catch everything
        write(3)


STATEMENTS = [
    ("COMMIT", "COMMIT"),
    ("-- done\n /* really */ commit;", "COMMIT"),
    ("UPDATE world_effect SET n = n; COMMIT", "COMMIT"),
    (composed.SQL("COMMIT"), "COMMIT"),
    (b"COMMIT", "COMMIT"),
    ("ROLLBACK", "ROLLBACK"),
    ("ABORT", "ABORT"),
    ("END", "END"),
    ("BEGIN", "BEGIN"),
    ("START TRANSACTION", "START TRANSACTION"),
    ("PREPARE TRANSACTION 'tests'", "PREPARE TRANSACTION"),
]


@pytest.mark.parametrize(("statement", "command"), STATEMENTS, ids=str)
@pytest.mark.parametrize("way", [send, send_and_go_on])
def test_a_statement_that_ends_the_transaction_is_not_sent(
    checked: Callable[..., Check], way: Callable[[Any], None], statement: Any, command: str
) -> None:
    found = checked(lambda: way(statement))
    assert written() == []
    assert found.ending is Ending.REFUSED
    assert found.failure is not None
    assert found.failure.code == "HANDLER_ENDS_TRANSACTION"
    assert f"“{command}”" in found.failure.text
    page = shown(found, UNCOVERED)
    assert (page.tone, page.then) == ("danger", "")
    assert "end its transaction" in page.title


def test_many_statements_in_one_call_are_looked_at_too(checked: Callable[..., Check]) -> None:
    def many() -> None:
        with connection.cursor() as cursor:
            cursor.executemany("COMMIT", [(), ()])

    assert checked(many).ending is Ending.REFUSED
    assert written() == []


def nest() -> None:
    with transaction.atomic():
        write(7)
        with pytest.raises(DatabaseError), transaction.atomic():
            send("SELECT 1 / 0")


def by_hand() -> None:
    send("SAVEPOINT inner_one")
    write(7)
    send("ROLLBACK TO SAVEPOINT inner_one; RELEASE inner_one")


@pytest.mark.parametrize("deed", [nest, by_hand])
def test_savepoints_stay_a_handlers_own_affair(
    checked: Callable[..., Check], deed: Callable[[], None]
) -> None:
    found = checked(deed)
    assert found.ending is Ending.APPLIED
    assert found.tables[0].inserted >= 2
    assert written() == []


def raw(statement: str) -> Callable[[], None]:
    """Past Django, and so past whatever looks at its statements."""

    def deed() -> None:
        connection.connection.execute(statement)

    return deed


def then_fail(deed: Callable[[], None]) -> Callable[[], None]:
    def failing() -> None:
        deed()
        raise ValueError

    return failing


def then_break(deed: Callable[[], None]) -> Callable[[], None]:
    def breaking() -> None:
        deed()
        send("SELECT 1 / 0")

    return breaking


KEPT = [
    raw("COMMIT"),
    lambda: connection.connection.commit(),  # noqa: PLW0108 - not the connection of now
    then_fail(raw("COMMIT")),
    then_break(raw("COMMIT")),
]


@pytest.mark.parametrize("deed", KEPT, ids=["sql", "driver", "then fails", "then breaks"])
def test_what_a_commit_past_django_has_stored_is_told(
    checked: Callable[..., Check], deed: Callable[[], None]
) -> None:
    found = checked(deed)
    assert written() == [1], "what came after the commit is undone as ever"
    assert found.ending is Ending.KEPT
    assert found.failure is not None
    assert found.failure.code == "CHECK_NOT_UNDONE"
    assert "is stored" in found.failure.text
    assert "could not be undone" in shown(found, UNCOVERED).title


def test_a_prepared_transaction_past_django_is_told(checked: Callable[..., Check]) -> None:
    found = checked(raw("PREPARE TRANSACTION 'tests'"))
    assert found.failure is not None
    assert (found.ending, found.failure.code) == (Ending.KEPT, "CHECK_NOT_UNDONE")
    assert "prepared" in found.failure.text
    assert written() == []


def roll_back_and_commit() -> None:
    raw("ROLLBACK")()
    write(5)
    raw("COMMIT")()


def test_a_transaction_of_the_handlers_own_may_have_stored_something(
    checked: Callable[..., Check],
) -> None:
    found = checked(roll_back_and_commit)
    assert written() == [5]
    assert found.failure is not None
    assert (found.ending, found.failure.code) == (Ending.KEPT, "CHECK_NOT_UNDONE")
    assert "may be stored" in found.failure.text


def test_a_procedure_cannot_commit_within_a_check(checked: Callable[..., Check]) -> None:
    found = checked(lambda: send("DO $$ BEGIN COMMIT; END $$"))
    assert found.ending is Ending.FAILED
    assert found.failure is not None
    assert found.failure.code == "INVALID_TRANSACTION_TERMINATION"
    assert written() == []
