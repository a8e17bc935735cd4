"""The rules of notices read together: what holds for one kind of one queue."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from crontasks.models import NoticeRule
from crontasks.models.notice import PROVIDER, NoticeKind
from crontasks.models.notice_kinds import FACTS, PROVIDER_AFTER_SECONDS
from crontasks.schedule.quiet import QuietHours, quiet_hours
from integration.models import Queue

# A rule is found by its kind (empty: every one), system, queue and code.
Key = tuple[str, int | None, str, str]
_FIELDS: Final = (
    *("at_least", "longer_than_seconds", "window_seconds", "after_seconds", "repeat_seconds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds: thresholds, whom to tell, when. `rules` say so, the narrowest first.

    Without `recipients` the addresses of SLUICE_NOTIFY_EMAILS are told.
    """

    is_on: bool = True
    at_least: int | None = None
    longer_than_seconds: int | None = None
    window_seconds: int | None = None
    after_seconds: int = 0
    recipients: tuple[str, ...] = ()
    repeat_seconds: int = 0
    quiet: QuietHours | None = None
    rules: tuple[str, ...] = ()

    def is_quiet(self, now: datetime) -> bool:
        """Return whether people are to be left alone at this moment."""
        return self.quiet is not None and self.quiet.holds(now)


class RuleBook:
    """All rules; read once for a look, asked for each condition. Asks no database then."""

    def __init__(self, rules: Iterable[NoticeRule], systems: Mapping[str, int]) -> None:
        """`systems` maps the names of queues to the numbers of their systems."""
        self._rules: dict[Key, NoticeRule] = {}
        self._systems = systems
        for rule in rules:
            queue = rule.queue.name if rule.queue is not None else ""
            self._rules[rule.kind, rule.system_id, queue, rule.code] = rule

    def of(self, kind: NoticeKind, subject: str = "", queue: str = "", code: str = "") -> Setting:
        """What holds for a condition of this kind; `queue` is a name, empty where it is of none."""
        facts = FACTS[kind]
        found: dict[str, Any] = {
            # Of one cause only a rule about it says how many are too many.
            "at_least": None if code else facts.count,
            "longer_than_seconds": facts.seconds,
            "window_seconds": facts.window_seconds,
            "after_seconds": facts.after_seconds,
            "repeat_seconds": 0,
        }
        if kind == NoticeKind.OUTAGE and subject.startswith(PROVIDER):
            found["after_seconds"] = PROVIDER_AFTER_SECONDS
        narrowest_first = list(self._matching(kind, queue, code))
        for rule in reversed(narrowest_first):
            given = {name: getattr(rule, name) for name in _FIELDS}
            found |= {name: value for name, value in given.items() if value is not None}
            if rule.recipients:
                found["recipients"] = tuple(rule.recipients)
            if rule.quiet_hours:
                found["quiet"] = _quiet(rule, is_urgent=facts.is_urgent)
            found["is_on"] = rule.enabled
        return Setting(**found, rules=tuple(rule.name for rule in narrowest_first))

    def most_count(self, kind: NoticeKind) -> int:
        """The largest number that any rule or the default asks for; 0 where none does."""
        return max(self._given(kind, "at_least", FACTS[kind].count), default=0)

    def seconds(self, kind: NoticeKind) -> list[int]:
        """Every time that a rule or the default asks for, shortest first."""
        return sorted(self._given(kind, "longer_than_seconds", FACTS[kind].seconds))

    def windows(self, kind: NoticeKind) -> list[int]:
        """Every window in which something is counted, shortest first."""
        return sorted(set(self._given(kind, "window_seconds", FACTS[kind].window_seconds)))

    def codes(self) -> set[str]:
        """The causes of failures that rules of their own are about."""
        return {code for _, _, _, code in self._rules if code}

    def _given(self, kind: NoticeKind, name: str, default: int | None) -> Iterator[int]:
        if default is not None:
            yield default
        for rule in self._rules.values():
            value = getattr(rule, name)
            if rule.kind == kind and value is not None:
                yield value

    def _matching(self, kind: NoticeKind, queue: str, code: str) -> Iterator[NoticeRule]:
        """The queue's before its system's before everybody's; of this kind before of all kinds."""
        scopes: list[tuple[int | None, str]] = [(None, "")]
        if queue:
            scopes.insert(0, (None, queue))
        if queue in self._systems:
            scopes.insert(1, (self._systems[queue], ""))
        for system, name in scopes:
            # A rule about one cause counts that alone: what others of the kind count is not it.
            for asked in ((str(kind), code), ("", "")):
                rule = self._rules.get((asked[0], system, name, asked[1]))
                if rule is not None:
                    yield rule


def load() -> RuleBook:
    """Read all rules: one statement, and one more where a rule is of a system."""
    rules = list(NoticeRule.objects.select_related("queue"))
    systems: dict[str, int] = {}
    if any(rule.system_id is not None for rule in rules):
        queues = Queue.objects.filter(system__isnull=False).values_list("name", "system_id")
        systems = {name: number for name, number in queues if number}
    return RuleBook(rules, systems)


def _quiet(rule: NoticeRule, *, is_urgent: bool) -> QuietHours | None:
    """What is urgent comes all the same, unless the rule says otherwise."""
    if is_urgent and not rule.quiet_for_urgent:
        return None
    try:
        return quiet_hours(rule.quiet_hours, rule.time_zone)
    except ValueError:
        # Written past the form: better told at night than not at all.
        return None
