"""Reading JSON by the annotations of frozen dataclasses: parameters, and plans."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from spark_jobs.errors import JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParameters:
    """The parameters of a job, checked before anything is read. `JOB` is its name for people."""

    JOB: ClassVar[str]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read and check them. Raises JobError BAD_PARAMETERS, and what `check` raises.

        Enums, times (ISO texts), nested dataclasses, tuples and mappings are read by their types;
        numbers, texts and flags stay as they are.
        """
        try:
            parameters: Self = _made(cls, values)
        except (TypeError, ValueError, AttributeError) as e:
            raise cls.bad(str(e)) from e
        parameters.check()
        return parameters

    @classmethod
    def bad(cls, why: str) -> JobError:
        """The refusal of a parameter; `why` is the end of a sentence."""
        return JobError(
            "BAD_PARAMETERS",
            f"The {cls.JOB} cannot be run as it is asked for: {why}.",
            "Correct the parameter and start the run again.",
        )

    def check(self) -> None:
        """Raise JobError for what does not go together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The plan of a run, stored before it reads: whoever goes on with the run reads the same."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `as_json`."""
        parameters: Self = _made(cls, values)
        return parameters

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    names = {field.name for field in fields(kind)}
    if unknown := sorted(set(values) - names):
        raise ValueError(f"there is no parameter {unknown[0]!r}")
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in values.items()})


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        kinds = [one for one in inner if one is not NoneType]
        # What may be a text or a number is what it is.
        return value if value is None or len(kinds) > 1 else _value(kinds[0], value)
    if origin is tuple:
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_value(one, part) for one, part in zip(each, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {_value(inner[0], name): _value(inner[1], member) for name, member in value.items()}
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
