"""Trying the paths and schema of a structure on a pasted document, before anything is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from integration.documents.structures import schema_problems, version_of
from integration.envelope import Bare, Flaw, Limits, read
from integration.paths import BadPath, compile_path, object_key
from integration.policy.failure import Failure

MAX_BYTES: Final = 256 * 1_024
LIMITS: Final = Limits(max_bytes=MAX_BYTES)
NO_KEY: Final = "finds nothing that can be a key"
NO_VERSION: Final = "none: the order of arrival decides"


@dataclass(frozen=True, slots=True)
class PathValue:
    """One path: the value it finds, or in `problem` why there is none."""

    path: str
    value: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Tryout:
    """The structure's reading of a document. `problem`: why it cannot be read at all.

    `key` is empty where none results; `key_problem` tells why.
    """

    problem: str = ""
    kind: str = ""
    paths: tuple[PathValue, ...] = ()
    key: str = ""
    key_problem: str = ""
    version: PathValue | None = None
    schema: tuple[str, ...] = ()
    has_schema: bool = False

    @property
    def is_fine(self) -> bool:
        version_is_bad = self.version is not None and bool(self.version.problem)
        return bool(self.key) and not (self.problem or self.schema or version_is_bad)


def try_out(sample: str, key_paths: Sequence[str], version_path: str, schema: Any) -> Tryout:
    """Read the sample as a message would be, an envelope around it included. Raises nothing."""
    if len(sample.encode()) > MAX_BYTES:
        return Tryout(problem=f"The sample is longer than {MAX_BYTES // 1_024} KiB; shorten it.")
    document = read(sample.encode(), None, LIMITS)
    if isinstance(document, Flaw):
        return Tryout(problem=f"{document.message} {document.hint}".strip())
    body = document.body
    key, key_problem = _key(key_paths, body)
    is_xml = not isinstance(document, Bare) and document.mimetype.endswith("xml")
    return Tryout(
        kind=("XML" if is_xml else "JSON") + (" in its envelope" if document.wrapped else ""),
        paths=tuple(_looked_up(path, body) for path in key_paths),
        key=key,
        key_problem=key_problem,
        version=_looked_up(version_path, body, is_version=True) if version_path else None,
        schema=() if schema is None else tuple(schema_problems(schema, body)),
        has_schema=schema is not None,
    )


def _looked_up(text: str, body: object, *, is_version: bool = False) -> PathValue:
    try:
        value = compile_path(text).first(body)
    except BadPath as problem:
        return PathValue(text, problem=problem.reason)
    if value is None:
        nothing = {"value": NO_VERSION} if is_version else {"problem": NO_KEY}
        return PathValue(text, **nothing)
    version = version_of(value) if is_version else None
    return PathValue(text, str(value), version.text if isinstance(version, Failure) else "")


def _key(texts: Sequence[str], body: object) -> tuple[str, str]:
    try:
        paths = [compile_path(text) for text in texts]
    except BadPath as problem:
        return "", str(problem)
    if not paths:
        return "", "Name at least one path."
    key = object_key(paths, body)
    return ("", f"{key.message} {key.hint}".strip()) if isinstance(key, Flaw) else (key, "")
