"""Tags for times, states and numbers: one for each, the same on all pages."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Protocol

from django import template
from django.template.defaultfilters import truncatechars
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from console.layout import words
from console.layout.words import BADGE, UNKNOWN, age, ago, badge, duration, number, took, worded
from crontasks.outcome import RunState
from integration.durations import spoken
from integration.formats.schema import TITLES
from integration.masking.mask import HIDDEN
from integration.policy.failure import FailureClass
from integration.policy.states import ErrorState, OutboxKind
from integration.selectors.delivering.standing import Standing
from integration.selectors.queues.status import Status

register = template.Library()
register.filter(number)
register.filter(ago)
register.filter(age)
register.filter(spoken)
register.filter(duration)
register.filter(took)


@register.filter
def is_masked(text: str) -> bool:
    """Return whether a key or an id is hidden, so that nothing can be found by it."""
    return HIDDEN[:-1] in text


STATUS_SIGNS: Final = {
    Status.BLOCKED: "■",
    Status.BRAKED: "▲",
    Status.NO_READER: "∅",
    Status.NO_SENDER: "∅",
    Status.OUTAGE: "!",
    Status.WAITING: "…",
    Status.BACKOFF: "↻",
    Status.NOT_STARTED: "·",
    Status.PAUSED: "‖",
    Status.RUNNING: "✓",
    Status.OFF: "○",
}
RUNS: Final[Mapping[str, words.Look]] = {
    RunState.RUNNING: ("azure", "◆", "Running"),
    RunState.DONE: ("green", "✓", "Done"),
    RunState.FAILED: ("red", "✕", "Failed"),
    RunState.TIMED_OUT: ("orange", "!", "Timed out"),
    RunState.LOST: ("red", "?", "Lost"),
}
FAILURE_KINDS: Final[dict[str, str]] = {
    FailureClass.PERMANENT: "fails every time, as it is now",
    FailureClass.TRANSIENT: "may pass by itself",
    FailureClass.CONFLICT: "other work was in the way",
    FailureClass.DEPENDENCY: "something it refers to is missing",
    FailureClass.OUTAGE: "something all messages need was down",
    FailureClass.DISABLED: "what takes it is switched off or not installed",
    FailureClass.CRASH: "the worker died on it",
}
PAST_KINDS: Final[dict[str, str]] = {
    FailureClass.PERMANENT: "failed every time, as it was then",
    FailureClass.TRANSIENT: "one that may pass by itself",
    FailureClass.DEPENDENCY: "something it refers to was missing",
    FailureClass.DISABLED: "what takes it was switched off or not installed",
}
register.simple_tag(partial(badge, words.FAILURES), name="error_state")
register.simple_tag(partial(badge, words.OUTBOX), name="outbox_state")
register.simple_tag(partial(badge, words.CALLS), name="call_state")
register.simple_tag(partial(badge, RUNS), name="run_state")


@register.filter
def failure_kind(failure_class: str, state: str = "") -> str:
    """The kind of a failure in words; an unknown one as it is stored.

    A resolved one is spoken of as over.
    """
    if state == ErrorState.RESOLVED and failure_class in PAST_KINDS:
        return PAST_KINDS[failure_class]
    if state == ErrorState.PARKED:
        return "none so far: it waits for its turn"
    return worded(FAILURE_KINDS, failure_class)


@register.filter
def schema_kind(kind: str) -> str:
    """A format of a schema registry as people write it; an unknown one as the registry does."""
    return {str(known): title for known, title in TITLES.items()}.get(kind, kind)


@register.filter
def outbox_kind(kind: str) -> str:
    """The word for what an outgoing row carries; its stored value is an older one."""
    return OutboxKind(kind).name.replace("_", " ").lower()


# A list has dozens of lines and few endings and queues: each is written once.
@register.simple_tag
@lru_cache(maxsize=100)
def track_end(ended: str) -> SafeString:
    """The badge of what a try ended in."""
    return badge(words.ENDINGS, ended)


@register.simple_tag
def queue_status(status: Status) -> SafeString:
    """The badge of how a queue or partition stands."""
    return format_html(BADGE, status.tone, STATUS_SIGNS[status], status.label)


@register.simple_tag
def endpoint_standing(standing: Standing) -> SafeString:
    """The badge of how an endpoint stands."""
    return format_html(BADGE, standing.tone, standing.sign, standing.label)


@register.filter
def coded(text: str) -> SafeString:
    """Show text between backticks as code; one that is left over stays as it is."""
    parts: list[str] = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    shown = [f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)]
    return mark_safe("".join(shown))  # noqa: S308 - every part is escaped


@register.filter
def capped(value: int | None, cap: int = 10_000) -> str:
    """A count that stopped one above its cap: "10,000+"."""
    return f"{cap:,}+" if value is not None and value > cap else number(value)


class Waits(Protocol):
    """A queue, a partition of one, or the sum of many."""

    lag: int | None
    is_least: bool


@register.filter
def waiting(row: Waits) -> str:
    """How many messages wait: "12", "1,000+" where no more were counted; a dash if not known."""
    return f"{number(row.lag)}+" if row.is_least else number(row.lag)


@register.filter
def per_second(value: float | str | None) -> str:
    """A rate without its unit: "0.4", "12"; a dash for what is not known.

    Of a pace that is not there a template makes an empty text.
    """
    if value is None or isinstance(value, str):
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


@register.filter
def milliseconds(value: float | str | None) -> str:
    """A short time: "3 ms", "1.4 s"; a dash for what nobody measured."""
    if value is None or isinstance(value, str):
        return UNKNOWN
    return f"{value:,.0f} ms" if value < 1_000 else f"{value / 1_000:,.1f} s"


@register.filter
def pace(rate: float | str | None) -> str:
    """A rate in the unit that reads best: "3.2 a second", "4 a minute", "none"."""
    if rate is None or isinstance(rate, str):
        return UNKNOWN
    if not rate:
        return "none"
    if rate >= 1:
        return f"{rate:,.1f} a second"
    minute = rate * 60
    return f"{minute:,.0f} a minute" if minute >= 1 else f"{minute * 60:,.0f} an hour"


@register.filter
def queue_page(name: str) -> str:
    """The address of a queue's page."""
    return _queue_page(name, get_script_prefix(), get_urlconf())


@lru_cache(maxsize=1_000)
def _queue_page(name: str, _prefix: str, _urlconf: str | None) -> str:
    """The same console may be reached below several prefixes: each has addresses of its own."""
    return reverse("queue", args=[name])


@register.filter(is_safe=True)
def within(text: str, most: int) -> str:
    """Do what `truncatechars` does; ids are short, and a list has hundreds of them."""
    return text if len(text) <= most and text.isascii() else truncatechars(text, most)


@register.filter
def few(names: Sequence[str], most: int = 3) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
