"""The stored facts of the configuration in the words of its pages: fields, and what is in them."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from django.db import models
from django.utils.dateparse import parse_datetime

from console.bulk.words import STATES as BULK_STATES
from console.cron.forms import CronForm
from console.layout.access import Right
from console.operations.words import STATES
from console.setup.queues.fields import BACKOFFS, LABELS
from console.setup.services import NO_OWN, RETRIES
from console.setup.urls import NOUNS
from crontasks.definitions import registry
from crontasks.models import CronInstance
from integration.durations import written
from integration.models import Operation, Queue

NOTHING: Final = "\N{EN DASH}"
LONG: Final = 400
SECONDS: Final = "_seconds"
FORMS: Final[Mapping[str, Any]] = {**{n.kind: n.form for n in NOUNS}, "croninstance": CronForm}
RIGHTS: Final = {right.word: right.words for right in Right}
# Of these the stored values that are chosen have words; all are called as the audit does.
MODELS: Final[Mapping[str, type[models.Model]]] = {
    **{noun.kind: noun.model for noun in NOUNS},
    "queue": Queue,
    "croninstance": CronInstance,
    "operation": Operation,
}
# What no form has a word for, or another one than a history needs.
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "queue": {**LABELS, "kind": "Kind", "backoff": "Growth of the pauses"},
    "enterpriseservice": {
        **{name: LABELS[name] for name in RETRIES},
        "backoff": "Pauses of its own",
    },
    "croninstance": {"interval_seconds": "Every", "task": "Cron task", "run": "Run now"},
    "operation": {
        "first_only": "Pauses after the first message",
        "rate": "Messages a second, at most",
        "late": "Releases late ones too",
        "release_after_edit": "Releases what it edits",
        "stop_after": "Pauses when so many failed again",
        "stop_share": "Pauses when so many percent failed again",
    },
    "bulkrun": {"cancel_asked": "Is to be cancelled"},
    "testmessage": {
        "interface": "Service",
        "queue_id": "Number of the queue",
        "outgoing_row": "Row of the outbox",
        "tracked_after": "Last tracked before it",
        "destination": "External system",
    },
    "apitoken": {
        "prefix": "Begins with",
        "may_post": "May put messages into queues",
        "may_call": "May run services at once",
        "may_read": "May ask what became of messages",
        "may_publish": "May publish to channels",
        "services": "Only these services or channels",
    },
    "personaltoken": {"prefix": "Begins with", "rights": "Limited to"},
    "user": {"systems": "External systems", "active": "May log in"},
    "group": {"rights": "May"},
}
VALUES: Final[Mapping[tuple[str, str], Mapping[object, str]]] = {
    ("queue", "backoff"): dict(BACKOFFS),
    ("enterpriseservice", "backoff"): {"": NO_OWN, **dict(BACKOFFS)},
    ("operation", "state"): {state.value: words for state, (_, _, words) in STATES.items()},
    ("operation", "rate"): {None: "no limit"},
    ("bulkrun", "state"): {state: words for state, (_, _, words) in BULK_STATES.items()},
    ("operation", "stop_after"): {None: "does not"},
    ("operation", "stop_share"): {None: "does not"},
    # Django's own label of a member is made from its name in the code.
    ("provider", "security_protocol"): {},
    ("provider", "sasl_mechanism"): {},
}


def field_words(name: str, kind: str = "") -> str:
    """A stored field as its form calls it; `kind` is the audit's name of what has it."""
    known = FIELDS.get(kind, {}).get(name) or _labels(kind).get(name)
    return known or name.removesuffix(SECONDS).replace("_", " ").capitalize()


def value_words(value: object, name: str = "", kind: str = "") -> str:
    """Write a field's value for people: choices by their label, seconds as durations."""
    known = VALUES.get((kind, name), _choices(kind).get(name, {}))
    if isinstance(value, str | int | None) and value in known:
        return known[value]
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "on" if value else "off"
    if kind == "croninstance":
        value = _of_cron(name, value)
    if kind == "group" and isinstance(value, list):
        return "; ".join(RIGHTS.get(str(one), str(one)) for one in value) or NOTHING
    return _cut(_plain(value, name))


def _plain(value: object, name: str) -> str:
    if name.endswith(SECONDS):
        return _durations(value)
    if isinstance(value, str):
        at = parse_datetime(value) if name.endswith(("_at", "_time")) else None
        return f"{at:%d %B %Y, %H:%M:%S} UTC" if at is not None else value
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value) or NOTHING
    if isinstance(value, Mapping) and not any(isinstance(v, dict | list) for v in value.values()):
        return "; ".join(f"{key}: {value_words(v)}" for key, v in value.items()) or NOTHING
    return json.dumps(value, ensure_ascii=False)


def _durations(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_durations(one) for one in value) or NOTHING
    return written(float(value)) if isinstance(value, int | float) else str(value)


def _of_cron(name: str, value: object) -> object:
    """A cron task by its title; parameters by their labels."""
    definition = registry.get(value) if name == "task" and isinstance(value, str) else None
    if definition is not None:
        return definition.title
    if name == "parameters" and isinstance(value, Mapping):
        return {str(key).replace("_", " "): one for key, one in value.items()}
    return value


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:LONG]}…"


@cache
def _labels(kind: str) -> Mapping[str, str]:
    form = FORMS.get(kind)
    fields = {} if form is None else form.base_fields
    return {name: str(field.label) for name, field in fields.items() if field.label}


@cache
def _choices(kind: str) -> Mapping[str, Mapping[object, str]]:
    model = MODELS.get(kind)
    fields = [] if model is None else model._meta.concrete_fields
    return {f.name: {v: str(label) for v, label in f.flatchoices} for f in fields if f.choices}
