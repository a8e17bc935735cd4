"""Reference pages made from the code and the documents that programs read; see site_pages."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

_FIGURE: Final = re.compile(
    r"^\| (?P<names>`sluice_[^|]*) \| (?P<labels>[^|]*) \| (?P<text>.*) \|$"
)
# Where nobody has written a docstring, the signature is the docstring.
_OF_DATACLASSES: Final = re.compile(r"^\w+\([^)]*\)$")
_METRICS: Final = """\
What `/metrics` gives. [Operations](../operations.md#health-and-figures) says who may read it,
and what is worth an alert."""
_CONFIGURATION: Final = """\
What a [configuration file](../configuration-file.md) may say in each section; *in italics* the
words of the queue's form. A field that is left out keeps what is stored, or has its default."""
_KINDS: Final = {
    "BooleanField": "`true` or `false`",
    "FloatField": "a number",
    "IntegerField": "a whole number",
    "PositiveIntegerField": "a whole number",
    "PositiveSmallIntegerField": "a whole number",
    "PositiveBigIntegerField": "a whole number",
    "DateTimeField": "a time with its zone",
    "ArrayField": "a list",
    "SecretField": "a [secret](../configuration-file.md#secrets)",
}
# What the type of a column does not tell.
_WRITTEN: Final = {
    ("endpoints", "secrets"): "a mapping of names and [secrets](../configuration-file.md#secrets)",
    ("cron_instances", "task"): "the name of a [cron task](cron-tasks.md)",
}
_MORE: Final = {
    ("endpoints", "properties"): "Those of its [type](../endpoints.md).",
    ("cron_instances", "parameters"): "Those of its [cron task](cron-tasks.md).",
    ("providers", "properties"): "[Which](../kafka-security.md#settings-of-the-kafka-client).",
    ("event_subscriptions", "kinds"): "[Which](../webhooks.md).",
}
# Each column of JSON has one, or the site is not built.
_EXAMPLES: Final = {
    "addresses": "[night@example.org]",
    "json_schema": "{type: object, required: [assetnum]}",
    "key_paths": "[$.assetnum, $.siteid]",
    "kinds": "[failure.held]",
    "parameters": "{tracking_days: 30}",
    "recipients": "[on-call]",
    "retry_delays_seconds": "[1, 10, 60]",
    "search_paths": "[$.vendor]",
    "secrets": "{password: kept}",
}
_EXAMPLES_OF: Final = {
    ("providers", "properties"): "{socket.timeout.ms: 10000}",
    ("endpoints", "properties"): "{url: 'https://erp.example.org/in', read_seconds: 60}",
}
_OPERATIONS: Final = """\
Each operation by the words of its [command](../api.md#the-command-line), with its address below the
console's own. One that **acts** takes the header `Idempotency-Key`. [Operator API](../api.md)
explains tokens, rules and pages; refusals have
[codes](../error-codes.md#what-the-operator-api-answers)."""


def metrics(operations: str) -> str:
    """A page of the figures of /metrics, one by one, from the table of docs/operations.md.

    A test holds that table to what /metrics gives.
    """
    found = {
        name: (figure["labels"], figure["text"])
        for line in operations.splitlines()
        if (figure := _FIGURE.match(line))
        for name in re.findall(r"`(sluice_\w+)`", figure["names"])
    }
    page = ["# Metrics", _METRICS]
    lines = ["| metric | labels | what it shows |", "| --- | --- | --- |"]
    for name, (labels, text) in sorted(found.items()):
        lines.append(f"| `{name}` | {labels.strip()} | {_from_here(text)} |")
    return "\n\n".join([*page, "\n".join(lines)]) + "\n"


def _from_here(text: str) -> str:
    """A page's own words on a page that is one folder further down."""
    return re.sub(r"\]\((?!\w+:)(?P<to>[^)]*)\)", r"](../\g<to>)", text)


def operator_api(operations: Sequence[Any]) -> str:
    """A page of the operator API: every operation of sluice_cli.operations, by group."""
    page = ["# Operator API", _OPERATIONS]
    group = ""
    for one in operations:
        if one.group != group:
            group = one.group
            page.append(f"## {group.capitalize()}")
        page.append(f"### `{one.words}`")
        page.append(f"`{one.method} {one.path}`{', **acts**' if one.acts else ''}")
        page.append(one.text)
        if one.rights:
            page.append(f"Rights: {', '.join(one.rights)}.")
        fields = [*one.parts, *one.query, *one.body]
        if fields:
            page.append("\n".join(_fields(fields)))
        if one.file:
            page.append(f"The body is a file, `{one.file}`.")
    return "\n\n".join(page) + "\n"


def _fields(fields: Sequence[Any]) -> Iterator[str]:
    yield "| name | kind | |"
    yield "| --- | --- | --- |"
    for field in fields:
        words = " or ".join(f"`{choice}`" for choice in field.choices) or field.kind
        required = ", required" if field.is_required else ""
        yield f"| `{field.name}` | {words}{required} | {_in_a_cell(field.text)} |"


def _in_a_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def configuration(
    sections: Sequence[Any], labels: Mapping[str, str], helps: Mapping[str, str]
) -> str:
    """A page of every field of a configuration file, as the models and the queue's form have it.

    `labels` and `helps` are the queue's form's words for its fields.
    """
    page = ["# Fields of the configuration file", _CONFIGURATION]
    places = {section.model: section.name for section in sections}
    for section in sections:
        is_queue = section.name == "queues"
        lines = ["| field | what is written | default | |", "| --- | --- | --- | --- |"]
        for name, column in section.columns.items():
            label = f"*{labels[name]}*. " if is_queue and name in labels else ""
            text = (helps.get(name) if is_queue else "") or str(column.help_text)
            text = " ".join([text, _MORE.get((section.name, name), "")])
            written = _written(section.name, column, places)
            cells = [f"`{name}`", written, _default(column), f"{label}{_in_a_cell(text)}"]
            lines.append(f"| {' | '.join(cells)} |")
        page += [f"## `{section.name}`", "\n".join(lines)]
    return "\n\n".join(page) + "\n"


def _written(section: str, column: Any, places: Mapping[type, str]) -> str:
    """What a file says for this column, with an example where a structure is meant.

    Raises KeyError for a column of JSON that nobody has given an example.
    """
    place = (section, column.name)
    kind = _WRITTEN.get(place) or _kind(column, places)
    if column.get_internal_type() == "JSONField":
        example = _EXAMPLES_OF.get(place) or _EXAMPLES[column.name]
        kind = "a list" if example.startswith("[") else "a mapping"
    elif column.name in _EXAMPLES:
        example = _EXAMPLES[column.name]
    else:
        return kind
    return f"{kind}, such as `{example}`"


def _kind(column: Any, places: Mapping[type, str]) -> str:
    if column.name == "endpoint_type":
        return " or ".join(f"`{value}` (*{label}*)" for value, label in column.choices)
    if column.choices:
        return " or ".join(f"`{value}`" for value, _ in column.choices if value)
    if column.is_relation:
        place = places.get(column.related_model)
        return f"the name of one of `{place}`" if place else "the name of a user"
    name = type(column).__name__
    return _KINDS.get(name) or _KINDS.get(column.get_internal_type(), "text")


def _default(column: Any) -> str:
    if not column.has_default():
        return "" if column.null or column.blank else "**required**"
    value = column.get_default()
    if value in ("", None) or value in ([], {}):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def handlers(module: ModuleType) -> str:
    """A page of what a handler author imports: the names of `__all__`, with their docstrings."""
    page = [
        "# What a handler imports",
        f"Everything that `{module.__name__}` offers. [Handlers](../handlers.md) explains it.",
    ]
    for name in module.__all__:
        thing = getattr(module, name)
        page += [f"## `{name}`", *_told(name, thing)]
    return "\n\n".join(page) + "\n"


def _told(name: str, thing: Any) -> Iterator[str]:
    """Its signature and its docstring; of a class also its properties and methods."""
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        yield f"```python\n{name} = {_words(thing)}\n```"
        return
    signature = _words(inspect.signature(thing))
    if inspect.isclass(thing):
        signature = signature.removesuffix(" -> None")
    yield f"```python\n{name}{signature}\n```"
    text = inspect.getdoc(thing) or ""
    if not _OF_DATACLASSES.match(text):
        yield text
    # What a class makes of an abstract one is the engine's affair.
    if inspect.isclass(thing) and not any(inspect.isabstract(one) for one in thing.__mro__):
        yield from _members(thing)


def _words(thing: Any) -> str:
    """As one writes it: types by their names alone."""
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])|~", "", str(thing))


def _members(of: type) -> Iterator[str]:
    """What the class itself defines and documents, or gives out as a property."""
    fields = {one.name for one in dataclasses.fields(of)} if dataclasses.is_dataclass(of) else set()
    lines = []
    for name, member in vars(of).items():
        is_told = isinstance(member, property) or inspect.isfunction(member)
        if name.startswith("_") or name in fields or not is_told:
            continue
        text = " ".join((inspect.getdoc(member) or "").split())
        shown = f"{name}()" if inspect.isfunction(member) else name
        lines.append(f"- `{shown}`{': ' if text else ''}{text}")
    if lines:
        yield "\n".join(lines)
