"""Uploads for imports: streamed to the shared folder, by people who may ask for a run.

A file is written below a name that no import reads, and renamed when it is whole. Each person has
a folder of their own, and each file a name of our own: what the person called it is no part of a
path.
"""

import io
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile, StopUpload
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from console.layout.access import Right, needs
from console.layout.answers import SeeOther, see
from crontasks.bulk.errors import BulkError
from crontasks.bulk.storage import PART, inside, unwritable, uploads_of

FIELD: Final = "file"
EXTENSION: Final = re.compile(r"\.[a-z0-9]{1,8}")
SHOWN_CHARACTERS: Final = 40
MEGABYTE: Final = 2**20
NO_FILE: Final = {
    "title": "No file was chosen",
    "why": "Nothing was stored. Go back, choose a file and send it again.",
}

NO_FILE_STEP: Final = "Send it as the field “file” of multipart/form-data."


def most_bytes() -> int:
    """The largest upload that is taken."""
    return int(settings.SLUICE_BULK_UPLOAD_MB) * MEGABYTE


class Arriving(FileUploadHandler):
    """Writes the one file of the form to its folder while it comes, never into memory.

    `problem` is why it cannot be stored. `drop` leaves nothing of what was not kept.
    """

    def __init__(self, request: HttpRequest, folder: str) -> None:
        super().__init__(request)
        self._folder = folder
        self._name = ""
        self._size = 0
        # Of a file that has begun.
        self._file: BinaryIO = io.BytesIO()
        self._part: Path | None = None
        self.problem: BulkError | None = None

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        if self._name or self.field_name != FIELD:
            raise SkipFile
        called, token = Path(str(self.file_name or "")), secrets.token_hex(6)
        self._name = f"{self._folder}/{token}{_stem(called)}{_extension(called)}"
        with self._stopping():
            folder = inside(self._name).parent
            folder.mkdir(parents=True, exist_ok=True)
            self._part = folder / f".{token}{PART}"
            self._file = self._part.open("xb")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:  # noqa: ARG002 - Django's
        self._size += len(raw_data)
        with self._stopping():
            if self._size > most_bytes():
                raise BulkError(
                    "UPLOAD_TOO_LARGE",
                    f"The file is larger than {settings.SLUICE_BULK_UPLOAD_MB:,} MB.",
                    "Split it, or have it put into the folder of bulk jobs and name it there.",
                )
            self._file.write(raw_data)

    def file_complete(self, file_size: int) -> "UploadedFile[bytes]":
        return UploadedFile(file=io.BytesIO(), name=self.file_name, size=file_size)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Let any problem end the upload; the page tells why."""
        try:
            yield
        except BulkError as e:
            self.problem = e
        except OSError as e:
            self.problem = unwritable(e)
        if self.problem is not None:
            raise StopUpload

    def keep(self) -> str:
        """Make it durable under its name, which is returned. Raises BulkError UPLOAD_FAILED."""
        place = inside(self._name)
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if self._part is not None:
                self._part.rename(place)
            _sync(place.parent)
        except OSError as e:
            raise unwritable(e) from e
        return self._name

    def drop(self) -> None:
        try:
            self._file.close()
        finally:
            if self._part is not None:
                self._part.unlink(missing_ok=True)


def _stem(called: Path) -> str:
    """A little of what the person called it, so that they know it again in a list."""
    words = slugify(called.stem)[:SHOWN_CHARACTERS].strip("-_")
    return f"-{words}" if words else ""


def _extension(called: Path) -> str:
    extension = called.suffix.lower()
    return extension if EXTENSION.fullmatch(extension) else ""


def _sync(folder: Path) -> None:
    """The new name is on the disk as well."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def stored(request: HttpRequest) -> str:
    """Store the one file of a form that nobody has read yet; returns its name below the folder.

    Raises BulkError: it is too large, cannot be stored, or no file was sent.
    """
    arriving = Arriving(request, uploads_of(request.user.pk or 0))
    request.upload_handlers = [arriving]
    try:
        is_whole = FIELD in request.FILES
        if arriving.problem is not None:
            raise arriving.problem
        if not is_whole:
            raise BulkError("NO_FILE", "No file came with the request.", NO_FILE_STEP)
        return arriving.keep()
    finally:
        arriving.drop()


@csrf_exempt
@needs(Right.VIEW, Right.OPERATE)
def upload(request: HttpRequest) -> HttpResponse:
    """Store a file and go on with the import of it.

    Nothing of the request is read before its person's rights are known, nor into another place
    than the shared folder; then the form's token is judged, as for every other form.
    """
    if request.method != "POST":
        return see("bulk-new", "import")
    arriving = Arriving(request, uploads_of(request.user.pk or 0))
    request.upload_handlers = [arriving]
    try:
        return _protected(request, arriving)
    except BulkError as problem:
        said = {"title": f"Nothing was stored: {problem.job_code}", "why": str(problem)}
        return render(request, "console/refusals/400.html", said, status=422)
    finally:
        arriving.drop()


@csrf_protect
def _protected(request: HttpRequest, arriving: Arriving) -> HttpResponse:
    is_whole = FIELD in request.FILES
    if arriving.problem is not None:
        raise arriving.problem
    if not is_whole:
        return render(request, "console/refusals/400.html", NO_FILE, status=422)
    address = f"{reverse('bulk-new', args=['import'])}?{urlencode({'source': arriving.keep()})}"
    return SeeOther(address)
