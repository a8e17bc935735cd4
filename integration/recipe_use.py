"""What a recipe makes of one message: the changed record, nothing new, or why it does not fit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from integration.codec import decode_headers
from integration.delivery.policy.failure import Failure, cause_of
from integration.documents.exact_json import encode
from integration.documents.structures import Plan, plan_for
from integration.envelope import DEFAULT, XML, Document, Flaw, read
from integration.models import EnterpriseService, Queue
from integration.paths import BadPath
from integration.recipes import Misfit, Recipe
from integration.store.operations import Content
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


@dataclass(frozen=True, slots=True)
class Rules:
    """Which structure's schema and key a message has to fit, by the service that takes it."""

    plans: Mapping[str, Plan] = field(default_factory=dict)
    defaults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def now(cls) -> "Rules":
        """The rules as they are configured now, in two queries."""
        services = EnterpriseService.objects.select_related("structure").exclude(structure=None)
        plans: dict[str, Plan] = {}
        for service in services:
            try:
                if service.structure is not None:
                    plans[service.interface] = plan_for(service.structure)
            except BadPath:
                continue  # The engine names what is wrong with the structure at the next message.
        named = Queue.objects.exclude(default_service=None).values_list(
            "pk", "default_service__interface"
        )
        return cls(plans, dict(named))

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


def subject_of(content: Content) -> Subject:
    """A failure's content as a recipe takes it."""
    headers = decode_headers(json.loads(content.headers))
    return Subject(content.queue_id, content.interface, content.record, headers)


def use(recipe: Recipe, subject: Subject, rules: Rules) -> Changed | Same | Misfit:
    """Change one message; nothing is stored. Never raises, whatever the bytes are."""
    if subject.record is None:
        return Misfit("It has no value: it is a tombstone.")
    found = read(subject.record, subject.headers)
    if isinstance(found, Flaw):
        return Misfit(f"It cannot be read ({found.code}); edit it singly.")
    if found.mimetype == XML:
        return Misfit("It is XML, which is edited singly.")
    before = encode(found.body)
    body = recipe.apply(found.body)
    if isinstance(body, Misfit):
        return body
    after = encode(body)
    return Same() if after == before else _kept(subject, found, rules, (body, before, after))


def _kept(
    subject: Subject, found: Document, rules: Rules, texts: tuple[object, str, str]
) -> Changed | Misfit:
    body, before, after = texts
    refused = rules.objection(subject.interface, subject.queue_id, body)
    if refused is not None:
        # Its text may quote values, and reasons are shown to people who may not see payloads.
        return Misfit(f"{refused.code}: {cause_of(refused)}")
    record = with_text(subject.record or b"", found, after)
    if len(record) > DEFAULT.max_bytes:
        return Misfit(f"It would be larger than {DEFAULT.max_bytes:,} bytes.")
    return Changed(record, before, after)
