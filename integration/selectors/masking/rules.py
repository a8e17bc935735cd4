"""The masking rules as they are stored, and which of them are for a message."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import Exists, Value

from integration.masking.mask import NOTHING, Mask, Part, Rule, mask_of
from integration.masking.matcher import Style
from integration.models import EnterpriseService, MaskingRule, PublishChannel, Queue
from integration.store.reads import standby

# For queries of lists, which so learn without one of their own whether there is anything to hide.
_ANY_RULES: Final = Exists(MaskingRule.objects.filter(enabled=True))


def any_rules() -> Exists | Value:
    """The condition for a query; a standby, which may not know the newest rule, is not asked."""
    return Value(value=True) if standby() else _ANY_RULES


class LimitedRule(NamedTuple):
    """A rule with its limits; None = none. `interfaces` are names of services and channels."""

    rule: Rule
    system: int | None
    queue: int | None
    interfaces: frozenset[str] | None
    structure: int | None

    def is_for(self, queue: int | None, system: int | None, names: frozenset[str]) -> bool:
        """Return whether a message of this queue and system that goes by these names is meant."""
        is_here = queue is None or (self.queue in {None, queue} and self.system in {None, system})
        return is_here and (
            not names or self.interfaces is None or not names.isdisjoint(self.interfaces)
        )


@dataclass(frozen=True, slots=True)
class Masks:
    """Every rule that is switched on. The mask of a message is made of those that are for it.

    `known` are the services and channels there are: a message of any other may be of each.
    """

    rules: tuple[LimitedRule, ...] = ()
    known: frozenset[str] = frozenset()

    def of(self, queue: int | None, system: int | None, interfaces: Collection[str]) -> Mask:
        """The mask of a message. What is not known of it (None, no name) fits every limit."""
        return self.joined([(queue, system)], interfaces)

    def joined(
        self, places: Iterable[tuple[int | None, int | None]], interfaces: Collection[str]
    ) -> Mask:
        """The mask of a message that is of several queues; each with its system."""
        return mask_of(self.fitting(places, interfaces)) if self.rules else NOTHING

    def fitting(
        self, places: Iterable[tuple[int | None, int | None]], interfaces: Collection[str]
    ) -> frozenset[Rule]:
        """The rules for messages of any of these queues that go by any of these names."""
        names = self.known.intersection(interfaces)
        return frozenset(
            one.rule
            for queue, system in places
            for one in self.rules
            if one.is_for(queue, system, names)
        )

    def of_queue(self, queue: Queue, *interfaces: str) -> Mask:
        """The mask of a message of this queue that is of one of these services or channels."""
        return self.of(queue.pk, queue.system_id, interfaces)

    def of_made(self, queue: Queue, interface: str, more: frozenset[Rule]) -> Mask:
        """The mask of what is made of a message of this queue, for which `more` rules are, too."""
        return mask_of(self.fitting([(queue.pk, queue.system_id)], (interface,)) | more)

    def keyless(self, queues: Iterable[tuple[int, int | None]]) -> list[int]:
        """Those of these queues, each with its system, of which any key is masked."""
        places = [(queue, system) for queue, system in queues if self.rules]
        return [queue for queue, system in places if self.of(queue, system, ()).key is not None]

    def of_structure(self, structure: int) -> Mask:
        """The mask of documents that are stored under a structure, wherever they came from."""
        return mask_of(self.fitting_structure(structure))

    def fitting_structure(self, structure: int) -> frozenset[Rule]:
        """The rules for documents that are stored under a structure."""
        return frozenset(
            one.rule
            for one in self.rules
            if one.structure in {None, structure} and one.rule.part is Part.PAYLOAD
        )


def any_masked(queues: Sequence[int]) -> bool:
    """Return whether a rule is for any message of these queues; of none, for any at all."""
    rules = masks()
    if not rules.rules or not queues:
        return bool(rules.rules)
    systems = Queue.objects.filter(pk__in=queues).values_list("pk", "system")
    return not rules.joined(systems, ()).is_empty


def masks() -> Masks:
    """Read the rules that are switched on, in one query; two more if any names a service.

    Of the engine's own database, also for pages of a standby: a rule holds as soon as it is stored.
    """
    columns = ("part", "path", "style", "system", "queue", "service__interface", "structure")
    enabled = MaskingRule.objects.using(_own()).filter(enabled=True)
    rows = list(enabled.order_by("pk").values_list(*columns))
    is_limited = any(service is not None or of is not None for *_, service, of in rows)
    named = _named() if is_limited else []
    rules = []
    for part, path, style, system, queue, service, structure in rows:
        interfaces = None if service is None else frozenset({service})
        if structure is not None:
            of_it = frozenset(name for name, of in named if of == structure)
            interfaces = of_it if interfaces is None else interfaces & of_it
        rule = Rule(Part(part), path, Style(style))
        rules.append(LimitedRule(rule, system, queue, interfaces, structure))
    return Masks(tuple(rules), frozenset(name for name, _ in named))


def _own() -> str:
    return str(settings.SLUICE_DATABASE)


def _named() -> list[tuple[str, int | None]]:
    """Every service and channel, with its structure."""
    services = EnterpriseService.objects.using(_own()).values_list("interface", "structure")
    channels = PublishChannel.objects.using(_own()).values_list("name", "structure")
    return [*services, *channels]


def masked_queues() -> list[int]:
    """The queues of whose payloads a masking rule hides something."""
    known = masks()
    if not known.rules:
        return []
    every = Queue.objects.values_list("pk", "system")
    return [queue for queue, system in every if known.of(queue, system, ()).hides_payload]
