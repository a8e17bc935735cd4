"""The declaration of an endpoint's properties: once, as fields of a dataclass.

Reading, judging, the console's form and the table in docs/endpoints.md are all made of these.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from integration.endpoints.templates import BadTemplateError, Template

MAX_CHARACTERS: Final = 2_000
MAX_PEM_CHARACTERS: Final = 64_000
MAX_PAIRS: Final = 200
MAX_TOTAL_SECONDS: Final = 600
MAX_AT_ONCE: Final = 1_000
FIELDS: Final = "{message_id}, {interface}, {system}, {key} and paths such as {$.order.number}"
_MARK: Final = "sluice"
_NUL: Final = "\x00"


class Shape(StrEnum):
    """The kind of value a property holds, as JSON has it."""

    TEXT = "text"  # one line
    TEMPLATE = "template"  # one line with {…} in it
    PEM = "pem"  # several lines
    CHOICE = "choice"  # one of `choices`
    NUMBER = "number"  # from `least` to `most`; whole where `is_whole`
    FLAG = "flag"  # true or false
    PAIRS = "pairs"  # an object of names and templates
    NAMES = "names"  # a list of names


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One property, or one secret: what it is called, means and may be.

    `only` names another property and its values for which this one counts; forms show it then.
    """

    shape: Shape = Shape.TEXT
    label: str
    help: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    least: float = 0
    most: float = 0
    is_whole: bool = False
    is_needed: bool = False
    is_secret: bool = False
    check: Callable[[Any], str] | None = None
    only: tuple[str, tuple[str, ...]] | None = None


class Ledger(NamedTuple):
    """Where an endpoint keeps the ids of what it has delivered, and into which place it delivers.

    Two endpoints with one `kept_in` and different places take a message of one for a repeat of the
    other's.
    """

    kept_in: tuple[Any, ...]
    place: str


class Properties:
    """The properties and secrets of one endpoint type; a frozen dataclass that derives from it.

    Of the type itself: `label` is what pages call it, `about` what it is for, `repeats` who drops
    repeats of a message id, `drops_repeats` whether it does so by itself. `parts` are the headings
    of its form, each with its names. `waits_at_most` names the property that bounds a call.
    `secrets_go_by` are the properties that decide where secrets go and whose they are: who changes
    one enters the secrets again. `shared_folder` is the property that names a place which all
    systems share, `sends_id_by` the one that names the header of the message id, with its default.
    `forwards`: it is another topic, named by the properties `provider` and `topic`; nothing is
    called, and what is delivered is written in the transaction that reads it. `is_at_jms`: it is a
    queue or topic of a JMS broker, named by `host`, `port`, `address_kind` and `address`, which a
    queue can read again. `as_it_is` names the property that has payloads sent whatever is in them:
    nobody reads them as documents then.
    """

    __slots__ = ()
    label: ClassVar[str]
    about: ClassVar[str]
    repeats: ClassVar[str]
    drops_repeats: ClassVar[bool] = False
    parts: ClassVar[Sequence[tuple[str, Sequence[str]]]]
    waits_at_most: ClassVar[str] = ""
    secrets_go_by: ClassVar[Sequence[str]] = ()
    shared_folder: ClassVar[str] = ""
    sends_id_by: ClassVar[tuple[str, str]] = ("", "")
    forwards: ClassVar[bool] = False
    is_at_jms: ClassVar[bool] = False
    as_it_is: ClassVar[str] = ""

    @classmethod
    def depends_on_company(cls, values: Mapping[str, Any]) -> bool:  # noqa: ARG003 - most do not
        """Return whether a repeat is found again only if it shares its call with the same ones.

        Then nothing is repeated by itself where messages share calls.
        """
        return False

    @classmethod
    def ledger_of(cls, values: Mapping[str, Any]) -> Ledger | None:  # noqa: ARG003 - most have none
        """Return where the ids of delivered messages are kept, and the place that they are for.

        None where no other endpoint can keep its ids there.
        """
        return None

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003 - most have none
        """Tell what is wrong between values each of which can be kept, as a sentence by name."""
        return {}


def declare(label: str, default: Any = "", **about: Any) -> Any:
    """A dataclass field with its declaration: `about` are the other fields of a Declared.

    A mapping is copied for each value of the class.
    """
    marks = {_MARK: Declared(label=label, **about)}
    if isinstance(default, dict | list):
        return field(default_factory=default.copy, metadata=marks)
    return field(default=default, metadata=marks)


def part(heading: str, names: str) -> tuple[str, Sequence[str]]:
    """A part of a form: its heading, and the names in it with blanks between."""
    return heading, names.split()


def seconds(label: str, default: float, about: str) -> Any:
    return declare(
        label, default, shape=Shape.NUMBER, help=about, least=0.1, most=MAX_TOTAL_SECONDS
    )


def at_once(about: str) -> Any:
    return declare(
        "Messages at once",
        1,
        shape=Shape.NUMBER,
        help=f"{about} A sequential queue sends one at a time all the same: nothing passes a "
        "message that fails.",
        least=1,
        most=MAX_AT_ONCE,
        is_whole=True,
    )


def private_network() -> Any:
    return declare(
        "Permit private networks",
        False,
        shape=Shape.FLAG,
        help="Also connect to private and loopback addresses. Leave it off for partners on the "
        "internet: nobody can then lead us to a machine of our own network.",
    )


def secret(label: str, **about: Any) -> Any:
    """A text that is stored sealed and never shown."""
    return declare(label, is_secret=True, **about)


Made = TypeVar("Made")


def declarations(properties_class: type[Any]) -> dict[str, Declared]:
    """Every property and secret of a class of properties, in the order of its fields."""
    return {one.name: one.metadata[_MARK] for one in dataclasses.fields(properties_class)}


def default_of(properties_class: type[Any], name: str) -> Any:
    return getattr(properties_class(), name)


def made(
    properties_class: type[Made], properties: Mapping[str, Any], secrets: Mapping[str, str]
) -> Made:
    """The values as the class has them. They were judged before."""
    values: dict[str, Any] = {}
    for name, declared in declarations(properties_class).items():
        source: Mapping[str, Any] = secrets if declared.is_secret else properties
        if not _is_nothing(source.get(name)):
            values[name] = source[name]
    return properties_class(**values)


def judged(properties_class: type[Any], properties: Mapping[str, Any]) -> dict[str, str]:
    """Tell what is wrong with each property, as the rest of a sentence that its name begins."""
    mistakes: dict[str, str] = {}
    for name, declared in declarations(properties_class).items():
        if declared.is_secret:
            continue
        value = properties.get(name)
        if _is_nothing(value):
            if declared.is_needed and counts(declared, properties_class, properties):
                mistakes[name] = "is missing: an endpoint of this type needs it"
        elif mistake := _of_value(declared, value):
            mistakes[name] = mistake
    return mistakes


def counts(declared: Declared, properties_class: type[Any], properties: Mapping[str, Any]) -> bool:
    """Return whether a property means anything beside what the others say."""
    if declared.only is None:
        return True
    name, values = declared.only
    return (properties.get(name) or default_of(properties_class, name)) in values


def _is_nothing(value: object) -> bool:
    return value is None or value in ("", {}, [])


def _of_value(declared: Declared, value: Any) -> str:
    mistake = _JUDGES[declared.shape](declared, value)
    if not mistake and declared.check is not None:
        mistake = declared.check(value)
    return mistake


def _text(_declared: Declared, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        return "must be a text"
    if not value.isprintable():
        return "must be one line without control characters"
    return f"is longer than {MAX_CHARACTERS:,} characters" if len(value) > MAX_CHARACTERS else ""


def _template(declared: Declared, value: Any) -> str:
    if mistake := _text(declared, value):
        return mistake
    try:
        Template(value)
    except BadTemplateError as problem:
        return f"cannot be used: {problem.sentence}"
    return ""


def _pem(_declared: Declared, value: Any) -> str:
    if not isinstance(value, str) or "-----BEGIN " not in value or _NUL in value:
        return "must be a certificate in PEM: it begins with -----BEGIN CERTIFICATE-----"
    return "is too long" if len(value) > MAX_PEM_CHARACTERS else ""


def _choice(declared: Declared, value: Any) -> str:
    choices = [choice for choice, _ in declared.choices]
    return "" if value in choices else f"must be one of {', '.join(choices)}"


def _number(declared: Declared, value: Any) -> str:
    kinds = int if declared.is_whole else int | float
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if is_number and declared.least <= value <= declared.most:
        return ""
    what = "whole number" if declared.is_whole else "number"
    return f"must be a {what} from {declared.least:g} to {declared.most:g}"


def _flag(_declared: Declared, value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _pairs(declared: Declared, value: Any) -> str:
    if not isinstance(value, dict) or len(value) > MAX_PAIRS:
        return f"must be names with values, at most {MAX_PAIRS}"
    for name, text in value.items():
        if mistake := _text(declared, name) or _template(declared, text):
            return f"has a mistake at “{name[:80]}”: its value {mistake}"
    return ""


def _names(declared: Declared, value: Any) -> str:
    if not isinstance(value, list) or len(value) > MAX_PAIRS:
        return f"must be a list of names, at most {MAX_PAIRS}"
    mistake = next((mistake for item in value if (mistake := _text(declared, item))), "")
    return f"has a name that {mistake}" if mistake else ""


_JUDGES: Final[Mapping[Shape, Callable[[Declared, Any], str]]] = {
    Shape.TEXT: _text,
    Shape.TEMPLATE: _template,
    Shape.PEM: _pem,
    Shape.CHOICE: _choice,
    Shape.NUMBER: _number,
    Shape.FLAG: _flag,
    Shape.PAIRS: _pairs,
    Shape.NAMES: _names,
}


def lines_of(pairs: Mapping[str, str], sign: str) -> str:
    r"""Pairs as a person writes them, one a line.

    >>> lines_of({"X-Key": "{key}"}, ":")
    'X-Key: {key}'
    """
    lead = "" if sign == ":" else " "
    return "\n".join(f"{name}{lead}{sign} {value}" for name, value in pairs.items())


def pairs_of(text: str, sign: str) -> dict[str, str]:
    """The pairs that such lines say. Raises ValueError with a sentence."""
    pairs: dict[str, str] = {}
    for line in filter(None, map(str.strip, re.split(r"\r?\n", text))):
        name, between, value = (part.strip() for part in line.partition(sign))
        if not between or not name or not value:
            raise ValueError(f"“{line[:80]}” is not written as NAME {sign} VALUE.")
        if name in pairs:
            raise ValueError(f"{name} is given twice.")
        pairs[name] = value
    return pairs
