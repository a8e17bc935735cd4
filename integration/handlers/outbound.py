"""Messages that handlers of one transaction have published, and what their ids derive from."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.db import connections

from integration.handlers.channels import channel_named, target_of_queue
from integration.message import Message
from integration.tracing import context as trace_context
from integration.tracing.context import TraceContext
from integration.values import Outgoing

# Published ids are uuid5 of this and of what they derive from; it must never change.
ID_SPACE: Final = uuid.UUID("5b1f1c52-3c0e-5e0e-9d6a-6d5f2a0c7a11")


class Outbound:
    """The messages that handlers of one transaction have published so far, in order.

    And the objects that have arrived (`arrivals`). The engine makes one per transaction, calls
    `begin` before each handler call, goes `back` at a savepoint's rollback and writes it last.
    Rows published under an atomic block that was rolled back inside the handler are no longer
    among `rows`. What is published belongs to the trace of its cause; `context_of` tells under
    which place.
    """

    def __init__(self) -> None:
        self.cause: Message | None = None
        # Of how many messages the call is that is under way.
        self.together = 1
        self.context_of: Callable[[Message], TraceContext | None] = _own_context
        # Looked up once a transaction.
        self.channel = cache(channel_named)
        self.target = cache(target_of_queue)
        self._rows: list[Outgoing] = []
        self._arrivals: list[Any] = []
        self._guarded: list[tuple[object, Callable[[], None]]] = []
        self._ordinals: dict[str, int] = {}
        self._since = ""

    def begin(self, message: Message | None, since: str = "", *, together: int = 1) -> None:
        """A handler is called now for this message: ids derive from it, from 1 on.

        And from `since` where there is any: what else is called for the message than its handler.
        It is the first of so many `together` that a batch handler gets.
        """
        self.cause, self.together = message, together
        self._since = since
        self._ordinals.clear()

    @property
    def rows(self) -> list[Outgoing]:
        if self._guarded:
            self._drop_rolled_back()
        return self._rows

    @property
    def arrivals(self) -> list[Any]:
        if self._guarded:
            self._drop_rolled_back()
        return self._arrivals

    @property
    def mark(self) -> tuple[int, int]:
        """Return how much there is so far, for `back`."""
        return len(self.rows), len(self.arrivals)

    def back(self, mark: tuple[int, int]) -> None:
        """Forget what came since."""
        del self.rows[mark[0] :]
        del self.arrivals[mark[1] :]

    def next_name(self) -> str | None:
        """Return what the ids of the next call derive from: its cause and its number."""
        if self.cause is None:
            return None
        cause = _identity(self.cause)
        ordinal = self._ordinals[cause] = self._ordinals.get(cause, 0) + 1
        return f"{cause}\n{self._since}\n{ordinal}" if self._since else f"{cause}\n{ordinal}"

    def append(self, row: Outgoing) -> None:
        context = None if self.cause is None else self.context_of(self.cause)
        if context is not None:
            row = replace(row, headers=trace_context.carried(row.headers, context))
        self._rows.append(row)
        self._guard(row)

    def arrive(self, objects: Any) -> None:
        """Note objects that have arrived (see handlers.arrivals)."""
        self._arrivals.append(objects)
        self._guard(objects)

    def _guard(self, item: object) -> None:
        connection = connections[settings.SLUICE_DATABASE]
        if any(connection.savepoint_ids):

            def mark() -> None:
                """Stands for a savepoint: Django keeps the hook as long as that stands."""

            connection.on_commit(mark)
            self._guarded.append((item, mark))

    def _drop_rolled_back(self) -> None:
        """Django forgets the commit hooks of a savepoint it rolls back: those items go as well."""
        hooks = connections[settings.SLUICE_DATABASE].run_on_commit
        alive = {id(hook[1]) for hook in hooks}
        gone = {id(item) for item, mark in self._guarded if id(mark) not in alive}
        self._guarded = [pair for pair in self._guarded if id(pair[0]) not in gone]
        for items in (self._rows, self._arrivals):
            items[:] = [item for item in items if id(item) not in gone]


def _own_context(message: Message) -> TraceContext | None:
    """The place that the message itself came with."""
    return trace_context.context_of(message.record.headers)


def _identity(message: Message) -> str:
    """Return what no other consumed message has, and this one at every try and after every edit.

    Its first position: a partner may use an id for several messages. And its id: a cluster that
    lost its last records gives their offsets away again.
    """
    place = f"{message.topic_uuid}\n{message.partition}\n{message.offset}"
    return f"{place}\n{message.message_id}"


current: ContextVar[Outbound | None] = ContextVar("sluice_outbound", default=None)


@contextmanager
def caused_by(message: Message) -> Iterator[None]:
    """Derive ids of what is published in the block, inside a batch handler, from this message.

    Without it ids derive from the batch's first message, and another batching after a restore
    of the database gives other ids.
    """
    outbound = current.get()
    if outbound is None:
        yield
        return
    before, outbound.cause = (outbound.cause, outbound.together), message
    outbound.together = 1
    try:
        yield
    finally:
        outbound.cause, outbound.together = before


def log_fields() -> Mapping[str, str]:
    """What a log line carries of the call of a handler; of a batch handler's only the queue."""
    outbound = current.get()
    message = None if outbound is None else outbound.cause
    if outbound is None or message is None:
        return {}
    queue = {"queue": message.queue} if message.queue else {}
    if outbound.together > 1:
        return queue
    fields = {**queue, "message_id": message.message_id}
    context = outbound.context_of(message)
    if context is None or not (context.sampled or _own_context(message)):
        return fields
    return {**fields, "trace_id": context.trace_id, "span_id": context.span_id}


def id_of(name: str | None) -> str:
    """A message id that derives from this name; a random one without."""
    return str(uuid.uuid4() if name is None else uuid.uuid5(ID_SPACE, name))
