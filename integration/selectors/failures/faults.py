"""Faults of an edited text before any handler sees it, with their lines and columns."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from integration.documents.numbers import is_too_long
from integration.documents.schemas import UNUSABLE, Judge, why_unusable
from integration.documents.structures import NUMBER_TOO_LONG, is_xml, plan_for
from integration.envelope import Document, Flaw, read
from integration.handlers.failures import classify
from integration.models import EnterpriseService
from integration.paths import BadPath, key_of
from integration.policy.failure import Failure
from integration.registries.reading import Reading
from integration.selectors.failures.payloads import Headers
from integration.wrapping import document_text

# The names and indexes that lead to a value; None where a name is still to come.
Path = tuple[str | int | None, ...]
MOST: Final = 20
_PLACE: Final = re.compile(r"line (\d+), column (\d+)")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to mend; line and column count from 1, 0 where there is no place for it."""

    text: str
    line: int = 0
    column: int = 0


def faults_of(
    record: bytes,
    headers: Headers,
    interface: str,
    *,
    text: str | None = None,
    reading: Reading = read,
) -> list[Fault]:
    """List what the engine's reading, the key paths and the schema object to, in one query.

    Places are those in `text`, as an editor shows the document, else in the document as it is
    written; in the record where that is what cannot be read. `interface` is the service where
    the record names none.
    """
    document = reading(record, headers)
    if isinstance(document, Failure):
        return [Fault(document.text)]
    if isinstance(document, Flaw):
        return [_placed(f"{document.message} {document.hint}")]
    services = EnterpriseService.objects.select_related("structure")
    service = services.filter(interface=document.interface or interface).first()
    if service is None or service.structure is None:
        return []
    try:
        plan = plan_for(service.structure)
    except BadPath as e:
        return [Fault(str(e))]
    key = key_of(plan.paths, document.body)
    faults = [Fault(f"{key.message} {key.hint}")] if isinstance(key, Flaw) else []
    if is_too_long(document.body):
        faults.append(Fault(NUMBER_TOO_LONG.text))
    return faults + ([] if plan.judge is None else _refused(plan.judge, document, text))


def _placed(text: str) -> Fault:
    at = _PLACE.search(text)
    return Fault(text) if at is None else Fault(text, int(at[1]), int(at[2]))


def _refused(judge: Judge, document: Document, shown: str | None) -> list[Fault]:
    if is_xml(document.body):
        return [Fault("The object structure has a JSON Schema, but the document is XML.")]
    text = shown or document_text(document) or ""
    try:
        problems = judge.errors(document.body, MOST)
    except UNUSABLE as e:
        return [Fault(why_unusable("the object structure", e))]
    paths = [tuple(problem.absolute_path) for problem in problems]
    places = places_of(text, paths)
    return [
        Fault(classify(problem).text, *places.get(path, (0, 0)))
        for problem, path in zip(problems, paths, strict=True)
    ]


def places_of(text: str, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    r"""Line and column of the value at each path; those that are not there are left out.

    >>> places_of('{"a": [1,\n {"b": true}]}', [("a", 1, "b"), ("c",)])
    {('a', 1, 'b'): (2, 7)}
    """
    found: dict[Path, tuple[int, int]] = {}
    wanted = set(paths)
    depths = {len(path) for path in wanted}
    frames: list[list[str | int | None]] = []
    kinds: list[str] = []
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if piece in "]}":
            frames.pop()
            kinds.pop()
        elif piece == ",":
            _step(frames[-1], kinds[-1])
        elif piece != ":" and not _is_name(frames, kinds, piece):
            here = tuple(frame[0] for frame in frames) if len(frames) in depths else None
            if here is not None and here in wanted:
                found[here] = _line_and_column(text, token.start())
                wanted.remove(here)
            if not wanted:
                break
            if piece in "[{":
                frames.append([0 if piece == "[" else None])
                kinds.append(piece)
    return found


def _step(frame: list[str | int | None], kind: str) -> None:
    place = frame[0]
    frame[0] = place + 1 if kind == "[" and isinstance(place, int) else None


def _is_name(frames: list[list[str | int | None]], kinds: list[str], piece: str) -> bool:
    """Return whether this is a member's name, which is then noted."""
    if not kinds or kinds[-1] != "{" or frames[-1][0] is not None:
        return False
    frames[-1][0] = str(json.loads(piece))
    return True


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
