"""How pages write times, states and numbers: one tag for each, on all pages the same."""

from datetime import datetime, timedelta
from typing import Final

from django import template
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from console.failures.filters import state_name
from console.layout.badges import BADGE, UNKNOWN, number
from crontasks.outcome import RunState
from integration.policy.failure import FailureClass
from integration.policy.states import ErrorState, OutboxState
from integration.selectors.queues.heads import spoken
from integration.selectors.queues.status import Status

register = template.Library()
register.filter(number)

# Never colour alone: each has a sign and a word. (tone, sign)
ERROR_SIGNS: Final = {
    ErrorState.RETRY: ("yellow", "↻"),
    ErrorState.HOLD: ("red", "!"),
    ErrorState.READY: ("azure", "→"),
    ErrorState.PROCESSING: ("purple", "◆"),
    ErrorState.RESOLVED: ("green", "✓"),
    ErrorState.DELETED: ("secondary", "✕"),
}
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
OUTBOX_SIGNS: Final = {
    OutboxState.PENDING: ("azure", "…", "Waiting"),
    OutboxState.STAMPED: ("purple", "→", "Being sent"),
    OutboxState.PUBLISHED: ("green", "✓", "In Kafka"),
    OutboxState.DEAD: ("red", "!", "Refused"),
    OutboxState.CANCELLED: ("secondary", "✕", "Not sent"),
}
RUN_SIGNS: Final[dict[str, tuple[str, str]]] = {
    RunState.RUNNING: ("azure", "◆"),
    RunState.DONE: ("green", "✓"),
    RunState.FAILED: ("red", "✕"),
    RunState.TIMED_OUT: ("orange", "!"),
    RunState.LOST: ("red", "?"),
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
STEPS: Final = (
    (timedelta(days=2), timedelta(days=1), "days"),
    (timedelta(hours=2), timedelta(hours=1), "h"),
    (timedelta(minutes=2), timedelta(minutes=1), "min"),
)


@register.simple_tag
def error_state(state: str) -> SafeString:
    """The badge of a failure's state; an unknown one is shown neutrally, never left out."""
    known = state in set(ErrorState)
    tone, sign = ERROR_SIGNS[ErrorState(state)] if known else ("secondary", "?")
    return format_html(BADGE, tone, sign, state_name(state))


@register.filter
def failure_kind(failure_class: str, state: str = "") -> str:
    """What kind of failure it is, in words; one that nobody knows as it is stored.

    Of one that is resolved it is told as over.
    """
    if state == ErrorState.RESOLVED and failure_class in PAST_KINDS:
        return PAST_KINDS[failure_class]
    return FAILURE_KINDS.get(failure_class, failure_class)


@register.simple_tag
def outbox_state(state: str) -> SafeString:
    """The badge of where a row of the outbox stands."""
    known = state in set(OutboxState)
    tone, sign, name = OUTBOX_SIGNS[OutboxState(state)] if known else ("secondary", "?", state)
    return format_html(BADGE, tone, sign, name)


@register.simple_tag
def run_state(state: str) -> SafeString:
    """The badge of how a cron task's run ended."""
    tone, sign = RUN_SIGNS.get(state, ("secondary", "?"))
    return format_html(BADGE, tone, sign, state.replace("_", " ").capitalize())


@register.simple_tag
def queue_status(status: Status) -> SafeString:
    """The badge of how a queue or partition stands."""
    return format_html(BADGE, status.tone, STATUS_SIGNS[status], status.label)


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """Relative time with the absolute one as its tooltip: "5 min ago", "in 3 min"."""
    if moment is None:
        return UNKNOWN
    utc = moment.astimezone(timezone.get_default_timezone())
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        utc.isoformat(timespec="seconds"),
        f"{utc:%d %B %Y, %H:%M:%S} UTC",
        relative(timezone.now() - moment),
    )


@register.filter
def age(moment: datetime | None) -> SafeString | str:
    """How old something is, without the "ago"."""
    if moment is None:
        return UNKNOWN
    words = relative(timezone.now() - moment).removesuffix(" ago")
    return format_html('<time title="{}">{}</time>', f"{moment:%d %B %Y, %H:%M:%S} UTC", words)


@register.filter
def coded(text: str) -> SafeString:
    """What stands between backticks is typed as it is: shown as code."""
    parts = [escape(part) for part in text.split("`")]
    shown = [f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)]
    return mark_safe("".join(shown))  # noqa: S308 - every part is escaped


@register.filter
def capped(value: int | None, cap: int = 10_000) -> str:
    """A count that stopped one above its cap: "10,000+"."""
    return f"{cap:,}+" if value is not None and value > cap else number(value)


@register.filter
def per_second(value: float | str | None) -> str:
    """A rate without its unit: "0.4", "12"; a dash for what is not known.

    Of a pace that is not there a template makes an empty text.
    """
    if value is None or isinstance(value, str):
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


@register.filter
def duration(length: timedelta | float | str | None) -> str:
    """How long something lasts, in its largest unit: "7 h"; a dash for what is not known."""
    if length is None or isinstance(length, str):
        return UNKNOWN
    whole = length if isinstance(length, timedelta) else timedelta(seconds=length)
    return "at once" if abs(whole) < timedelta(seconds=1) else spoken(whole)


def relative(passed: timedelta) -> str:
    """A duration before now (or after, when negative) in words."""
    length = abs(passed)
    for least, unit, name in STEPS:
        if length >= least:
            words = f"{length // unit:,} {name}"
            break
    else:
        words = f"{length.seconds} s"
        if length < timedelta(seconds=1):
            return "now"
    return f"in {words}" if passed < timedelta(0) else f"{words} ago"
