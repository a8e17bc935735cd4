"""The way from a Kafka record to a unit of work: envelope, service, retry marker or flaw."""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from integration import envelope
from integration.delivery.encoded import (
    AtHand,
    Encoded,
    MustAskError,
    bare_encoded,
    objection,
    read_encoded,
)
from integration.delivery.fallback_ids import FallbackIds
from integration.delivery.jms_flaws import jms_flaw
from integration.delivery.outcome import UNREAD, Failed
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.delivery.tracked import NOTHING_MORE, Messages, tracked_of
from integration.delivery.unit import OpenError, Unit
from integration.envelope.fields import FIELDS, addressed_by_headers
from integration.envelope.retry_wrapper import unwrap
from integration.formats.port import Schemas, no_registry
from integration.formats.schema import SchemaFacts, SchemaKind
from integration.formats.wire import MAGIC, schema_id_of
from integration.message import Message, Origin
from integration.policy.failure import Failure, FailureClass
from integration.values import Headers, Record, content_hash

RETRY_MARKER_HEADER: Final = "sluice-ticket"
RETRY_QUEUE_HEADER: Final = "sluice-queue"
RETRY_NUMBER_HEADER: Final = "sluice-retry"
COPY_HEADER: Final = "sluice-error"
DEPLOYMENT: Final = "sluice-deployment"
DIGEST: Final = "sluice-digest"
# The places where addressed_by_headers puts what is needed here.
INTERFACE: Final = FIELDS.index("INTERFACE")
MESSAGE_ID: Final = FIELDS.index("MEAMessageID")
# Of messages that are read ahead in small portions so many are traced together: column by column,
# which pays from about so many on, and takes as long as a short statement.
TRACED_AT_ONCE: Final = 100


class RetryMarker(NamedTuple):
    """The contents of a retry marker: which error row, and which of its retries is due."""

    error: UUID
    retry_no: int


LARGEST_RETRY: Final = 2**31 - 1
NO_RETRY_MARKER: Final = RetryMarker(UUID(int=0), 0)


def header(headers: Headers | None, name: str) -> str | None:
    """The text of the first header of that name, or None. Never raises on strange bytes."""
    for key, value in headers or ():
        if key == name and value is not None:
            return value.decode("ascii", "replace")
    return None


def retry_marker_of(record: Record) -> RetryMarker | None:
    """The retry marker a record is, or None when it is an ordinary message.

    A retry marker has a zero-length value: partners copy headers, so a retry marker header on a
    record with a body means nothing. A forged or damaged one points at no row and passes as stale.
    """
    if record.value != b"" or not record.headers:
        return None
    error = header(record.headers, RETRY_MARKER_HEADER)
    if error is None:
        return None
    try:
        retry_no = int(header(record.headers, RETRY_NUMBER_HEADER) or "0")
        # A number that no column can hold would end every run that meets it.
        return (
            RetryMarker(UUID(error), retry_no)
            if 0 <= retry_no <= LARGEST_RETRY
            else NO_RETRY_MARKER
        )
    except ValueError:
        return NO_RETRY_MARKER


def copied_failure(record: Record) -> UUID | None:
    """Return the failure that a record of an error queue copies, as its header says."""
    try:
        return UUID(header(record.headers, COPY_HEADER) or "")
    except ValueError:
        return None


def is_own_copy(record: Record, deployment: str) -> bool:
    """Return whether this deployment wrote the record as the copy of a failure, as it stands.

    Tools copy headers: a message that somebody wrote anew under them has another content, and
    must not pass as a copy of something that is safe elsewhere.
    """
    return (
        header(record.headers, DEPLOYMENT) == deployment
        and copied_failure(record) is not None
        and header(record.headers, DIGEST) == content_hash(record.value).hex()
    )


def copy_headers(record: Record, error: UUID, deployment: str) -> Headers:
    """The headers of a failure's copy: the record's own, and what `is_own_copy` looks for."""
    own = [(n, v) for n, v in record.headers or () if n not in {COPY_HEADER, DEPLOYMENT, DIGEST}]
    return [
        *own,
        (COPY_HEADER, str(error).encode()),
        (DEPLOYMENT, deployment.encode("ascii", "replace")),
        (DIGEST, content_hash(record.value).hex().encode()),
    ]


def retry_marker_headers(error: UUID, retry_no: int, queue: str) -> Headers:
    return [
        (RETRY_MARKER_HEADER, str(error).encode()),
        (RETRY_NUMBER_HEADER, str(retry_no).encode()),
        (RETRY_QUEUE_HEADER, queue.encode()),
    ]


Parsed = envelope.Document | envelope.Flaw | dict[str, Any]


class Reader:
    """Reads the records of one queue under one configuration snapshot."""

    def __init__(
        self,
        queue: QueueSnapshot,
        schemas: Schemas | None = None,
        generations: Mapping[int, int] | None = None,
    ) -> None:
        self.queue = queue
        self.schemas = schemas
        self._ids = FallbackIds(queue, generations or {})
        self._known: dict[str | None, tuple[Service, Origin]] = {}
        self._untraced: list[Unit] = []
        self._ahead = copy(self)
        self._ahead.schemas = None if schemas is None else AtHand(schemas)

    def units(self, records: Sequence[Record]) -> list[Unit]:
        """Return what is to be done with each record."""
        self._trace_read_ahead()
        if self.queue.is_jms:
            return [self.unit(record) for record in records]
        units: list[Unit] = []
        for place, record in enumerate(records):
            ahead, record.ahead = record.ahead, None
            if ahead is None or ahead[0] is not self:
                # Whatever follows came later still.
                return units + self._traced(self._read_all(records[place:]))
            units.append(ahead[1])
        return units

    def _read_all(self, records: Sequence[Record]) -> list[Unit]:
        """The units, without what tracking keeps of them.

        Most records are bare objects for the queue's default service. They take the short way
        here, without a call of ours beside the parsing: it is walked for every message.
        """
        default = self._known.get(None) or self._look_up(None)
        if isinstance(default, Failure) or default[0].format or not self._reads_plainly:
            return [self._read(record) for record in records]
        (service, origin), ids, schemas = default, self._ids, self.schemas
        taker, interface = service.taker, origin.interface
        units = []
        for record in records:
            if schemas is not None and record.value and record.value[0] == MAGIC:
                units.append(self._read_by_schema(schemas, record, default))
                continue
            body = envelope.parse(record.value, record.headers) if record.value else None
            if type(body) is dict:
                id_ = f"{ids[record.partition]}{record.offset}"
                message = Message(record, origin, id_, body, None)
                units.append(Unit(record, message, taker, None, id_, interface))
            else:
                units.append(self._read(record, body))
        return units

    def read_ahead(self, records: Sequence[Record]) -> None:
        """Read records before their turn; this reader's `units` finds it done.

        None of them where a schema would have to be asked for: there is no time for that now.
        """
        try:
            units = self._ahead._read_all(records)  # noqa: SLF001 - a reader, too
        except MustAskError:
            return
        for record, unit in zip(records, units, strict=True):
            record.ahead = self, unit
        self._untraced += units
        if len(self._untraced) >= TRACED_AT_ONCE:
            self._trace_read_ahead()

    def unit(self, record: Record) -> Unit:
        """Return what is to be done with one record. Whatever is wrong is known afterwards."""
        flaw = jms_flaw(record) if self.queue.is_jms else None
        unit = self._read(record) if flaw is None else self._failed(record, flaw)
        return self._traced([unit])[0]

    def _trace_read_ahead(self) -> None:
        units, self._untraced = self._untraced, []
        self._traced(units)

    def _traced(self, units: list[Unit]) -> list[Unit]:
        """The same units, with what tracking keeps of each."""
        if not self.queue.tracks:
            return units
        for interface, some in groupby(units, key=attrgetter("interface")):
            together = list(some)
            messages = Messages(
                interface,
                [unit.record for unit in together],
                [unit.message_id for unit in together],
                [None if unit.message is None else unit.message.body for unit in together],
                [None if unit.schema is None else unit.schema.id for unit in together],
            )
            follow = self.queue.followed.get(interface, NOTHING_MORE)
            facts = tracked_of(messages, follow, self.queue.write_tracks)
            for unit, tracked in zip(together, facts, strict=True):
                unit.tracked = tracked
        return units

    def _read_by_schema(
        self, schemas: Schemas, record: Record, default: tuple[Service, Origin]
    ) -> Unit:
        """Read what begins like a registry's message; the short way, where that is one."""
        found = bare_encoded(schemas, record)
        if found is None:
            return self._read(record)
        (document, facts), (service, origin) = found, default
        id_ = self._ids.of(record)
        message = Message(record, origin, id_, document.body, document)
        unit = Unit(record, message, service.taker, None, id_, origin.interface)
        unit.schema = facts
        return unit

    @property
    def _reads_plainly(self) -> bool:
        return self.queue.reads_content and not self.queue.retry_wrapper

    def _read(self, record: Record, parsed: Parsed | None = None) -> Unit:
        value = record.value
        if not self.queue.reads_content:
            return self._as_it_is(record)
        if value is None:
            return self._tombstone(record)
        if value[:1] == b"\0" and (schema_id := schema_id_of(value)) is not None:
            return self._encoded(record, value, schema_id)
        wrapped = unwrap(value) if self.queue.retry_wrapper else None
        if wrapped is not None:
            value = wrapped[1]
        content = parsed or envelope.parse(value, record.headers)
        if isinstance(content, dict):
            document = None if wrapped is None else envelope.Bare(content, value)
            return self._addressed(record, (None, None, content, document))
        if isinstance(content, envelope.Flaw):
            return self._flawed(record, content)
        return self._addressed(
            record, (content.interface, content.message_id, content.body, content)
        )

    def _as_it_is(self, record: Record) -> Unit:
        """Take a record without a look at its value: whatever that is, it goes on."""
        fields = addressed_by_headers(record.headers or ())
        if isinstance(fields, envelope.Flaw):
            return self._addressed(record, (None, None, None, None))
        return self._addressed(record, (fields[INTERFACE], fields[MESSAGE_ID], None, None))

    def _encoded(self, record: Record, value: bytes, schema_id: int) -> Unit:
        """Read a message by its schema; what that is stays known, whatever comes of it."""
        if self.schemas is None:
            failure = no_registry(self.queue.provider_name)
            result = Encoded(failure, SchemaFacts(schema_id))
        else:
            result = read_encoded(self.schemas, schema_id, value, record.headers)
        content = result.content
        if isinstance(content, Failure):
            unit = self._failed(record, content)
        elif isinstance(content, envelope.Flaw):
            unit = self._flawed(record, content)
        else:
            words = content.interface, content.message_id, content.body, content
            unit = self._addressed(record, words, result.kind)
        unit.schema = result.facts
        return unit

    def _addressed(
        self,
        record: Record,
        words: tuple[str | None, str | None, object, envelope.Document | None],
        kind: SchemaKind | None = None,
    ) -> Unit:
        """Find who takes a message that says (service, id, body, envelope), its words or None."""
        interface, message_id, body, document = words
        message_id = message_id or self._ids.of(record)
        taker = self._known.get(interface) or self._look_up(interface)
        if isinstance(taker, Failure):
            name = interface or self.queue.default_interface or ""
            return Unit(record, None, None, Failed(taker), message_id, name)
        service, origin = taker
        if service.format and (refused := objection(origin.interface, service.format, kind)):
            return Unit(record, None, None, Failed(refused), message_id, origin.interface)
        message = Message(record, origin, message_id, body, document)
        return Unit(record, message, service.taker, None, message_id, origin.interface)

    def _look_up(self, interface: str | None) -> tuple[Service, Origin] | Failure:
        """Find who takes messages of that name; remembered, unless the name is a stranger's."""
        queue = self.queue
        service = queue.service_for(interface)
        if isinstance(service, Failure):
            return service
        origin = Origin(service.interface, queue.system, queue.name, queue.topic)
        self._known[interface] = service, origin
        return service, origin

    def row_unit(self, row: OpenError) -> Unit:
        """A unit made from an error row: same reading, the row's own id, arrival and attempt.

        A message keeps one id for life, also when a person edits the one in its payload.
        """
        unit = self._read(row.record)
        unit.row = row
        unit.moves = False
        unit.message_id = row.message_id or unit.message_id
        if unit.message is not None:
            unit.message.message_id = unit.message_id
            unit.message.attempt = row.attempts + 1
            unit.message.late = row.late
        return self._traced([unit])[0]

    def unread(self, record: Record, row: OpenError | None = None) -> Unit:
        """A unit that nothing has parsed yet; `fill` does it, once its marker stands."""
        named = addressed_by_headers(record.headers or ())
        interface, id_ = self.queue.default_interface, None
        if not isinstance(named, envelope.Flaw):
            interface, id_ = named[INTERFACE] or interface, named[MESSAGE_ID]
        if row is not None:
            interface, id_ = row.interface, row.message_id or id_
        unit = Unit(record, None, None, UNREAD, id_ or self._ids.of(record), interface or "")
        unit.row, unit.moves = row, row is None
        return unit

    def fill(self, unit: Unit) -> None:
        """Read a unit that was left unread; where it is from and goes to stays."""
        read = self.unit(unit.record) if unit.row is None else self.row_unit(unit.row)
        unit.message, unit.taker, unit.known = read.message, read.taker, read.known
        unit.message_id, unit.interface, unit.tracked = (
            read.message_id,
            read.interface,
            read.tracked,
        )
        unit.schema = read.schema

    def _flawed(self, record: Record, flaw: envelope.Flaw) -> Unit:
        """Build the unit of what cannot be read: id and service as envelope or headers name it."""
        failure = Failure(FailureClass.PERMANENT, flaw.code, f"{flaw.message} {flaw.hint}")
        return self._failed(record, failure, flaw.interface, flaw.message_id)

    def _failed(
        self,
        record: Record,
        failure: Failure,
        interface: str | None = None,
        message_id: str | None = None,
    ) -> Unit:
        fields = addressed_by_headers(record.headers or ())
        if not isinstance(fields, envelope.Flaw):
            interface, message_id = interface or fields[INTERFACE], message_id or fields[MESSAGE_ID]
        message_id = message_id or self._ids.of(record)
        return Unit(record, None, None, Failed(failure), message_id, interface or "")

    def _tombstone(self, record: Record) -> Unit:
        fields = addressed_by_headers(record.headers or ())
        if isinstance(fields, envelope.Flaw):
            return self._flawed(record, fields)
        named = fields[INTERFACE]
        message_id = fields[MESSAGE_ID] or self._ids.of(record)
        service = self.queue.service_for(named)
        if isinstance(service, Service) and not service.deletes_on_tombstone:
            return Unit(record, None, None, Failed(TOMBSTONE), message_id, service.interface)
        return self._addressed(record, (named, message_id, None, None))


TOMBSTONE: Final = Failure(
    FailureClass.PERMANENT,
    "TOMBSTONE",
    "The message has no value (a tombstone). Its object structure does not say that this "
    "deletes anything.",
)
