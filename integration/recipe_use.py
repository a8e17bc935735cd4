"""The use of a recipe on one message: the changed record, nothing new, or why it does not fit.

Without Django: the operations of the console and the repairs on Spark change messages by it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from integration.documents.exact_json import encode
from integration.documents.structures import Plan, Structure, plan_for
from integration.envelope import DEFAULT, XML, Document, Flaw, layers_of, read, read_unwrapped
from integration.formats.documents import body_to_correct
from integration.formats.port import MISFIT
from integration.formats.schema import Misfit as SchemaMisfit
from integration.formats.schema import Schema
from integration.paths import BadPath
from integration.policy.failure import Failure, FailureClass, cause_of
from integration.recipes import Misfit, Recipe
from integration.wrapping import with_text

REWRAPPED: Final = (
    "MASK_MOVED: It would put hidden values into an envelope or out of one, where they were seen."
)
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Changed:
    """The whole record with the change in it, and the document in it before and after."""

    record: bytes
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Same:
    """The recipe leaves this message as it is; of a message with hidden values nobody says so."""


class Refused(Misfit):
    """The recipe can be applied, but what comes of it would not be taken."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The structure whose schema and key a message has to fit, by the service that takes it.

    `masked` are the queues of whose payloads a masking rule hides something, `wrapped` those whose
    messages come in a retry wrapper.
    """

    plans: Mapping[str, Plan] = field(default_factory=dict)
    defaults: Mapping[int, str] = field(default_factory=dict)
    masked: frozenset[int] = frozenset()
    wrapped: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        structures: Mapping[str, Structure],
        defaults: Mapping[int, str],
        masked: Collection[int] = (),
        wrapped: Collection[int] = (),
    ) -> "Rules":
        """The rules of these structures, by service; `defaults` are services by queue."""
        plans: dict[str, Plan] = {}
        for interface, structure in structures.items():
            try:
                plans[interface] = plan_for(structure)
            except BadPath:
                continue  # The engine names what is wrong with the structure at the next message.
        return cls(plans, defaults, frozenset(masked), frozenset(wrapped))

    def objection(self, interface: str, queue_id: int, body: object) -> Failure | None:
        plan = self.plans.get(interface or self.defaults.get(queue_id, ""))
        return None if plan is None else plan.objection(body)

    def read(self, subject: "Subject", record: bytes) -> Document | Flaw:
        """Read a record of the subject's queue, as the engine does."""
        read_as = read_unwrapped if subject.queue_id in self.wrapped else read
        return read_as(record, subject.headers)


@dataclass(frozen=True, slots=True)
class Subject:
    """One message to be changed; `record` is what the next attempt would read.

    `schema` is what a record of a registry's format was written by, or why there is none.
    """

    queue_id: int
    interface: str
    record: bytes | None
    headers: Headers
    schema: Schema | Failure | None = None


class _Opened(NamedTuple):
    """The document in a record, and what makes a record of it again, given also as JSON text."""

    body: object
    write: Callable[[object, str], bytes | Misfit]


def use(recipe: Recipe, subject: Subject, rules: Rules) -> Changed | Same | Misfit:
    """Change one message; nothing is stored. Never raises, whatever the bytes are."""
    opened = _opened(subject, rules)
    if isinstance(opened, Misfit):
        return opened
    before = encode(opened.body)
    body = recipe.apply(opened.body)
    if isinstance(body, Misfit):
        return body
    after = encode(body)
    if after == before and subject.queue_id not in rules.masked:
        # Where values are hidden, "it was so already" would tell one to whoever guesses it.
        return Same()
    refused = _objection(subject, rules, body)
    record = opened.write(body, after) if refused is None else refused
    if isinstance(record, Misfit):
        return record
    return _unfit(subject, rules, record) or Changed(record, before, after)


def _unfit(subject: Subject, rules: Rules, record: bytes) -> Refused | None:
    if len(record) > DEFAULT.max_bytes:
        return Refused(f"It would be larger than {DEFAULT.max_bytes:,} bytes.")
    if subject.queue_id in rules.masked and _rewraps(subject, rules, record):
        return Refused(REWRAPPED)
    return None


def _rewraps(subject: Subject, rules: Rules, record: bytes) -> bool:
    """Return whether the change makes an envelope of a document, or the other way round.

    Masking hides what is in the payload of an envelope: beside it, true values would be seen.
    """
    if isinstance(subject.schema, Schema):
        return False
    records = (subject.record or b"", record)
    before, after = (rules.read(subject, one) for one in records)
    if isinstance(after, Flaw) or isinstance(before, Flaw):
        return True
    return layers_of(before) != layers_of(after)


def _opened(subject: Subject, rules: Rules) -> _Opened | Misfit:
    record = subject.record
    if record is None:
        return Misfit("It has no value: it is a tombstone.")
    if isinstance(subject.schema, Schema):
        return _by_schema(subject.schema, record)
    if isinstance(subject.schema, Failure):
        return Misfit(f"{subject.schema.code}: {cause_of(subject.schema)}")
    document = rules.read(subject, record)
    if isinstance(document, Flaw):
        return Misfit(f"It cannot be read ({document.code}); edit it singly.")
    if document.mimetype == XML:
        return Misfit("It is XML, which is edited singly.")
    return _Opened(document.body, lambda _, text: with_text(record, document, text))


def _by_schema(schema: Schema, record: bytes) -> _Opened | Misfit:
    """Open a record of a registry's format; it is written by the same schema again."""
    body = body_to_correct(schema, record)
    if isinstance(body, Flaw):
        return Misfit(f"It cannot be read by its schema ({body.code}).")

    def write(changed: object, _: str) -> bytes | Misfit:
        made = schema.encode(changed, record)
        return _refused(MISFIT, str(made)) if isinstance(made, SchemaMisfit) else made

    return _Opened(body, write)


def _objection(subject: Subject, rules: Rules, body: object) -> Refused | None:
    try:
        refused = rules.objection(subject.interface, subject.queue_id, body)
    except Exception as e:  # noqa: BLE001 - whatever a schema stumbles over costs its message
        return Refused(f"The structure cannot judge it ({type(e).__name__}).")
    return None if refused is None else _refused(refused.code, refused.text)


def _refused(code: str, text: str) -> Refused:
    """Leave out of the text what it may quote: people who may not see payloads read reasons."""
    return Refused(f"{code}: {cause_of(Failure(FailureClass.PERMANENT, code, text))}")
