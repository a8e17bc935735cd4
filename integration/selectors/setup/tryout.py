"""Trying the paths and schema of a structure on a pasted document, before anything is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from integration.documents.structures import schema_problems, version_of
from integration.envelope import Bare, Flaw, Limits, read
from integration.paths import BadPath, Path, Value, compile_path, key_of
from integration.policy.failure import Failure

MAX_BYTES: Final = 256 * 1_024
LIMITS: Final = Limits(max_bytes=MAX_BYTES)
NOTHING: Final = "finds nothing that can be a key"


@dataclass(frozen=True, slots=True)
class Found:
    """One path: the value it finds, or in `problem` why there is none."""

    path: str
    value: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Tryout:
    """What the structure would make of the document. `problem`: why it cannot be read at all.

    `key` is empty where none results; `key_problem` tells why.
    """

    problem: str = ""
    kind: str = ""
    paths: tuple[Found, ...] = ()
    key: str = ""
    key_problem: str = ""
    version: Found | None = None
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
        paths=tuple(_found(path, body) for path in key_paths),
        key=key,
        key_problem=key_problem,
        version=_version(version_path, body) if version_path else None,
        schema=() if schema is None else tuple(schema_problems(schema, body)),
        has_schema=schema is not None,
    )


def _found(text: str, body: object) -> Found:
    try:
        value = compile_path(text).first(body)
    except BadPath as problem:
        return Found(text, problem=problem.reason)
    return Found(text, problem=NOTHING) if value is None else Found(text, str(value))


def _key(texts: Sequence[str], body: object) -> tuple[str, str]:
    paths: list[Path] = []
    for text in texts:
        try:
            paths.append(compile_path(text))
        except BadPath as problem:
            return "", str(problem)
    if not paths:
        return "", "Name at least one path."
    key = key_of(paths, body)
    return ("", f"{key.message} {key.hint}".strip()) if isinstance(key, Flaw) else (key, "")


def _version(text: str, body: object) -> Found:
    try:
        value: Value | None = compile_path(text).first(body)
    except BadPath as problem:
        return Found(text, problem=problem.reason)
    if value is None:
        return Found(text, "none: the order of arrival decides")
    version = version_of(value)
    if isinstance(version, Failure):
        return Found(text, str(value), version.text)
    return Found(text, str(value))
