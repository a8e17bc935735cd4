"""Tags of the set-up pages for addresses, facts and changes."""

import json
from typing import Any, Final

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from console.changes import fact_words
from console.changes.pages import ACTS, CHANGES, KINDS
from console.layout.words import BADGE
from console.setup import lists
from console.setup.noun import Noun
from console.setup.urls import NOUNS
from integration.actions.access import Act
from integration.kafka.examination import Examination, Verdict
from integration.models import ConfigurationChange
from integration.selectors.changes import Difference, Place
from integration.selectors.setup.nouns import Use

register = template.Library()

DONE: Final = {**dict(CHANGES), **dict(ACTS)}
# Of these the name says what it was about.
WHOLE: Final = frozenset({"session", "page"})
JOINED: Final = {Act.VIEW.value: " of", Act.DOWNLOAD.value: " from", Act.REVEAL.value: " of"}
# Where the things live that the audit and the lists of dependants name, by the model's name.
BY_NUMBER: Final = {**{noun.kind: noun.one for noun in NOUNS}, "croninstance": "cron-instance"}
BY_SUBJECT: Final = {
    "messageerror": "failure",
    "outboxrow": "outbox-row",
    "operation": "operation",
    "bulkrun": "bulk-run",
}
VERDICTS: Final = {
    Verdict.OK: ("green", "✓"),
    Verdict.REFUSED: ("red", "✕"),
    Verdict.UNKNOWN: ("yellow", "?"),
}


@register.filter
def address(noun: Noun, verb: str) -> str:
    """The address of its list or of a new one; of a verb on a row, the pattern for `of`."""
    if verb == "list":
        return reverse(noun.many)
    return reverse(f"{noun.one}-new") if verb in {"new", "clone"} else f"{noun.one}:{verb}"


@register.filter
def of(pattern: str, row: Any) -> str:
    """The address of a verb on this row; see `address`."""
    one, colon, verb = pattern.partition(":")
    if not colon:
        return f"{pattern}?like={row.pk}"
    return reverse(one if verb == "card" else f"{one}-{verb}", args=[row.pk])


@register.filter
def an(word: str) -> str:
    """The word with its article: "an endpoint"."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


@register.simple_tag
def switched(value: object) -> SafeString:
    """The badge of a switch."""
    return lists.switched(value)


@register.simple_tag
def filter_field(field: Any) -> SafeString:
    """A field of a list's filter, small."""
    look = "form-select" if hasattr(field.field, "choices") else "form-control"
    return SafeString(field.as_widget(attrs={"class": f"{look} {look}-sm"}))


@register.filter
def field_words(name: str, kind: str = "") -> str:
    """A stored field as its form calls it; `kind` is what has it, by the audit's name."""
    return fact_words.field_words(name, kind)


@register.filter
def fact(value: object) -> str:
    """A stored value as text: on, off, a dash for nothing, lists and objects spelt out."""
    return fact_words.value_words(value)


@register.simple_tag
def was(one: Difference, kind: str = "") -> str:
    """The value of a field before, in words; a dash for nothing."""
    return fact_words.value_words(one.before, one.field, kind)


@register.simple_tag
def is_now(one: Difference, kind: str = "") -> str:
    """The value of a field after, in words; a dash for nothing."""
    return fact_words.value_words(one.after, one.field, kind)


@register.filter
def pretty(value: object) -> str:
    """JSON over several lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


@register.filter
def use_address(use: Use) -> str:
    """The address where something that depends on a row is set up."""
    return (
        reverse("queue", args=[use.name])
        if use.kind == "queue"
        else _by_number(use.kind, use.number)
    )


@register.filter
def change_address(row: ConfigurationChange) -> str:
    """The address of the changed thing; empty when it is gone or has no page."""
    if row.action == "delete":
        return ""
    if row.kind == "queue":
        return reverse("queue", args=[row.name])
    if row.kind == "messagetrack":
        return f"{reverse('tracked-message')}?{urlencode({'id': row.name})}"
    if row.kind in BY_SUBJECT:
        return reverse(BY_SUBJECT[row.kind], args=[row.subject])
    return _by_number(row.kind, int(row.subject)) if row.subject.isdecimal() else ""


def _by_number(kind: str, number: int) -> str:
    name = BY_NUMBER.get(kind)
    return "" if name is None else reverse(name, args=[number])


@register.filter
def what_was_done(row: ConfigurationChange, is_one: object = None) -> str:
    """Added, changed or deleted, and what kind of thing unless the page is about one thing."""
    done = DONE.get(row.action, row.action.capitalize())
    if row.kind in WHOLE:
        return f"{done}:"
    joined = JOINED.get(row.action, "")
    return done if is_one else f"{done}{joined} {KINDS.get(row.kind, row.kind)}"


@register.filter
def place(value: Place) -> str:
    """The start of the next page of changes, for its address."""
    at, number = value
    return f"{at.isoformat().replace('+00:00', 'Z')}~{number}"


@register.simple_tag
def verdict(value: Verdict, refused: str = "refused") -> SafeString:
    """The badge of how a step of a test went; a step that is no right did not get refused."""
    tone, sign = VERDICTS[value]
    return format_html(BADGE, tone, sign, refused if value is Verdict.REFUSED else value.value)


@register.filter
def verdict_tone(value: Verdict) -> str:
    return VERDICTS[value][0]


@register.filter
def verdict_sign(value: Verdict) -> str:
    return VERDICTS[value][1]


@register.filter
def verdict_sign_tone(value: Verdict) -> str:
    return f"text-{VERDICTS[value][0]}"


@register.filter
def has_commands(tested: Examination) -> bool:
    """Return True when a command is shown that somebody should run."""
    return any(one.command for section in tested.sections for one in section.findings)
