"""Delivery as files: written beside, made safe on the disk, and never in another one's place."""

import errno
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from django.conf import settings

from integration.endpoint_types.file.folders import (
    TakenError,
    UnconfirmedError,
    confirm,
    folder,
    name_mistake,
    probe,
    write_new,
)
from integration.endpoint_types.file.formats import Format
from integration.endpoint_types.file.properties import FileProperties
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import (
    Accepted,
    Answer,
    Deliverer,
    NotDeliveredError,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from integration.endpoints.templates import FieldMissingError, Fields, Template

# Errors of the system, and whom they concern: all are about the folder, not the message.
CODES: Final[Mapping[int, EndpointCode]] = {
    errno.ENOSPC: EndpointCode.FOLDER_FULL,
    errno.EDQUOT: EndpointCode.FOLDER_FULL,
    errno.EFBIG: EndpointCode.FOLDER_FULL,
    errno.EROFS: EndpointCode.FOLDER_READ_ONLY,
    errno.EACCES: EndpointCode.FOLDER_READ_ONLY,
    errno.EPERM: EndpointCode.FOLDER_READ_ONLY,
}
TEXTS: Final[Mapping[EndpointCode, str]] = {
    EndpointCode.FOLDER_FULL: "There is no room left for files: {0}. Make room there.",
    EndpointCode.FOLDER_READ_ONLY: "We may not write there: {0}. Give the workers' user the "
    "right to write into the folder.",
    EndpointCode.FOLDER_UNUSABLE: "The folder cannot be used: {0}.",
}


class FileEndpoint:
    """One opened endpoint that writes files; see integration.endpoints.port.Deliverer."""

    def __init__(self, properties: FileProperties, root: Path) -> None:
        self.at_once = properties.at_once
        self.within_seconds: float | None = None
        self._root = root
        self._folder = properties.folder
        self._name = Template(properties.file_name)
        self._format = Format(properties)

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        records: dict[int, bytes] = {}
        answers: dict[int, Answer] = {}
        for at, message in enumerate(messages):
            try:
                records[at] = self._format.record(message)
            except (FieldMissingError, NotDeliveredError) as problem:
                answers[at] = problem.answer
        try:
            with folder(self._root, self._folder) as handle:
                while records:
                    answered = self._written(handle, messages, records)
                    answers.update(answered)
                    records = {at: record for at, record in records.items() if at not in answered}
        except OSError as problem:
            answers.update(dict.fromkeys(records, _unreachable(problem)))
        return [answers[at] for at in range(len(messages))]

    def connect(self) -> Answer:
        """Check that a file can be written; the one that proves it is taken away again."""
        try:
            with folder(self._root, self._folder) as handle:
                probe(handle)
        except OSError as problem:
            return _unreachable(problem)
        return Accepted(text="Files can be written into the folder.")

    def close(self) -> None:
        """Nothing is kept open between two calls."""

    def _written(
        self, handle: int, messages: Sequence[OutboundMessage], records: Mapping[int, bytes]
    ) -> dict[int, Answer]:
        """Write one file with all records, named by the first. Raises OSError.

        Answers at least for the first of them; what is left needs another file.
        """
        first = next(iter(records))
        try:
            name = self._name.filled(Fields(messages[first]))
        except FieldMissingError as problem:
            return {first: problem.answer}
        if mistake := name_mistake(name):
            text = f"The message gives the file the name “{name[:200]}”, which {mistake}."
            return {first: Refused(code=EndpointCode.FILE_NAME, text=text)}
        try:
            write_new(handle, name, self._format.whole(list(records.values())))
        except TakenError as taken:
            held = set() if taken.content is None else self._format.held(taken.content, records)
            return _there_already(handle, name, held) if held else {first: _taken(name)}
        except UnconfirmedError as problem:
            return dict.fromkeys(records, _unconfirmed(name, problem))
        return dict.fromkeys(records, Accepted(text=f"It is in the file {name}."))


def _there_already(handle: int, name: str, held: Iterable[int]) -> dict[int, Answer]:
    """Those that the file holds were delivered before."""
    answer: Answer = Accepted(text=f"It was in the file {name} already.")
    try:
        confirm(handle)
    except UnconfirmedError as problem:
        answer = _unconfirmed(name, problem)
    return dict.fromkeys(held, answer)


def _taken(name: str) -> Refused:
    text = f"There is a file {name} already, and it holds something else."
    return Refused(code=EndpointCode.FILE_EXISTS, text=text)


def _unconfirmed(name: str, problem: UnconfirmedError) -> Unknown:
    """The partner may have the file: to count it as not written would write it again."""
    text = f"It may be in the file {name}; the disk did not confirm it: {problem}."
    return Unknown(code=EndpointCode.FILE_UNCONFIRMED, text=text)


def _unreachable(problem: OSError) -> Unreachable:
    code = CODES.get(problem.errno or 0, EndpointCode.FOLDER_UNUSABLE)
    return Unreachable(code=code, text=TEXTS[code].format(problem.strerror or problem))


def opened(properties: FileProperties) -> Deliverer:
    """The endpoint type's opener. Raises ValueError where there is no base folder."""
    root = settings.SLUICE_FILES_ROOT
    if root is None:
        raise ValueError(
            "This installation has no base folder for files: set SLUICE_FILES_ROOT for every "
            "process and start them anew."
        )
    return FileEndpoint(properties, root)
