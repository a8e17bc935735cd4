"""Deleting a queue while somebody restores one of its failures: the message is not lost."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from integration.actions import failures, queue_removal
from integration.actions.configuration import Author
from integration.actions.errors import RowBusyError
from integration.models import MessageError, Queue
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("valkey")]


@pytest.mark.django_db(transaction=True)
def test_a_failure_is_not_restored_between_the_look_at_it_and_its_removal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("integration.actions.transaction.PATIENCE_MS", 100)
    queue = a_queue_row("continuous", enabled=False)
    a_place(queue)
    row = a_held(queue, state="DELETED", ended="DELETED")
    told: list[str] = []

    def restore() -> None:
        try:
            failures.restore(row.pk, version=row.version, actor="eva")
            told.append("restored")
        except RowBusyError:
            told.append("busy")
        finally:
            connections.close_all()

    def meanwhile(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        # The open failures were looked for by now: of all that is asked, the outbox comes later.
        if "integration_outboxrow" in sql and not told:
            person = threading.Thread(target=restore)
            person.start()
            person.join()
        return execute(sql, *more)

    with connection.execute_wrapper(meanwhile):
        queue_removal.remove(queue.pk, Author("otto", "not needed"), typed=queue.name)
    assert told == ["busy"]
    assert (Queue.objects.count(), MessageError.objects.count()) == (0, 0)
