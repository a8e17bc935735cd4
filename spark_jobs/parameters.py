"""What jobs are told came as JSON: it is read by the annotations of a frozen dataclass."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from spark_jobs.problems import JobError

T = TypeVar("T")
Refusal = Callable[[str], JobError]


def refusal(job: str) -> Refusal:
    """How a job refuses a parameter: a function from why (the end of a sentence) to its error."""

    def bad(why: str) -> JobError:
        return JobError(
            "BAD_PARAMETERS",
            f"The {job} cannot be run as it is asked for: {why}.",
            "Correct the parameter and start the run again.",
        )

    return bad


def read(kind: type[T], said: Mapping[str, Any], bad: Refusal) -> T:
    """The dataclass that the JSON object says. Raises what `bad` makes of a mistake.

    Enums, times (ISO texts), nested dataclasses, tuples and mappings are read by their types;
    numbers, texts and flags stay as they are.
    """
    try:
        found: T = _made(kind, said)
    except (TypeError, ValueError, AttributeError) as e:
        raise bad(str(e)) from e
    return found


def _made(kind: Any, said: Mapping[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    if unknown := sorted(set(said) - known):
        raise ValueError(f"there is no parameter {unknown[0]!r}")
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in said.items()})


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        [wanted] = [one for one in inner if one is not NoneType]
        return None if value is None else _value(wanted, value)
    if origin is tuple:
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_value(one, part) for one, part in zip(each, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {_value(inner[0], name): _value(inner[1], one) for name, one in value.items()}
    return _single(hint, value)


def _single(hint: Any, value: Any) -> Any:
    if not isinstance(hint, type):
        return value
    if is_dataclass(hint):
        return _made(hint, value)
    if issubclass(hint, Enum):
        return hint(value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    # A JSON object's names are texts, also where they are numbers.
    return int(value) if hint is int and isinstance(value, str) else value
