"""The use of a recipe on one message: the changed record, nothing new, or why it does not fit.

Without Django: the operations of the console and the repairs on Spark change messages by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from integration.documents.exact_json import encode
from integration.documents.structures import Plan, Structure, plan_for
from integration.envelope import DEFAULT, XML, Document, Flaw, read
from integration.paths import BadPath
from integration.policy.failure import Failure, cause_of
from integration.recipes import Misfit, Recipe
from integration.wrapping import with_text

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Changed:
    """The whole record with the change in it, and the document in it before and after."""

    record: bytes
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Same:
    """The recipe leaves this message as it is."""


class Refused(Misfit):
    """The recipe can be applied, but what comes of it would not be taken."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The structure whose schema and key a message has to fit, by the service that takes it."""

    plans: Mapping[str, Plan] = field(default_factory=dict)
    defaults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, structures: Mapping[str, Structure], defaults: Mapping[int, str]) -> "Rules":
        """The rules of these structures, by service; `defaults` are services by queue."""
        plans: dict[str, Plan] = {}
        for interface, structure in structures.items():
            try:
                plans[interface] = plan_for(structure)
            except BadPath:
                continue  # The engine names what is wrong with the structure at the next message.
        return cls(plans, defaults)

    def objection(self, interface: str, queue_id: int, body: object) -> Failure | None:
        plan = self.plans.get(interface or self.defaults.get(queue_id, ""))
        return None if plan is None else plan.objection(body)


@dataclass(frozen=True, slots=True)
class Subject:
    """One message to be changed; `record` is what the next attempt would read."""

    queue_id: int
    interface: str
    record: bytes | None
    headers: Headers


def use(recipe: Recipe, subject: Subject, rules: Rules) -> Changed | Same | Misfit:
    """Change one message; nothing is stored. Never raises, whatever the bytes are."""
    if subject.record is None:
        return Misfit("It has no value: it is a tombstone.")
    document = read(subject.record, subject.headers)
    if isinstance(document, Flaw):
        return Misfit(f"It cannot be read ({document.code}); edit it singly.")
    if document.mimetype == XML:
        return Misfit("It is XML, which is edited singly.")
    before = encode(document.body)
    body = recipe.apply(document.body)
    if isinstance(body, Misfit):
        return body
    after = encode(body)
    return (
        Same()
        if after == before
        else _kept(subject, document, rules, body, before=before, after=after)
    )


def _kept(
    subject: Subject, document: Document, rules: Rules, body: object, *, before: str, after: str
) -> Changed | Misfit:
    try:
        refused = rules.objection(subject.interface, subject.queue_id, body)
    except Exception as e:  # noqa: BLE001 - whatever a schema stumbles over costs its message
        return Refused(f"The structure cannot judge it ({type(e).__name__}).")
    if refused is not None:
        # Its text may quote values, and reasons are shown to people who may not see payloads.
        return Refused(f"{refused.code}: {cause_of(refused)}")
    record = with_text(subject.record or b"", document, after)
    if len(record) > DEFAULT.max_bytes:
        return Refused(f"It would be larger than {DEFAULT.max_bytes:,} bytes.")
    return Changed(record, before, after)
