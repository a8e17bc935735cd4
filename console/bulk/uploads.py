"""Uploads for imports: streamed to the shared folder, by people who may ask for a run."""

import io
from typing import Any, Final
from urllib.parse import urlencode

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile, StopUpload
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from console.bulk.looking import asker_of
from console.layout.access import Right, needs
from console.layout.answers import SeeOther, see
from crontasks.bulk.errors import BulkError
from crontasks.bulk.uploads import Arriving

FIELD: Final = "file"
NO_FILE: Final = {
    "title": "No file was chosen",
    "why": "Nothing was stored. Go back, choose a file and send it again.",
}


class Streamed(FileUploadHandler):
    """Writes the one file of the form to its folder while it comes, never into memory."""

    def __init__(self, request: HttpRequest, folder: str) -> None:
        super().__init__(request)
        self._folder = folder
        self.arriving: Arriving | None = None
        self.problem: BulkError | None = None

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        if self.arriving is not None or self.field_name != FIELD:
            raise SkipFile
        try:
            self.arriving = Arriving(self._folder, str(self.file_name or ""))
        except BulkError as problem:
            self.problem = problem
            raise StopUpload from problem

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:  # noqa: ARG002 - Django's
        assert self.arriving is not None  # noqa: S101 - a chunk is of a file that began
        try:
            self.arriving.write(raw_data)
        except BulkError as problem:
            self.problem = problem
            raise StopUpload from problem

    def file_complete(self, file_size: int) -> "UploadedFile[bytes]":
        return UploadedFile(file=io.BytesIO(), name=self.file_name, size=file_size)

    def drop(self) -> None:
        if self.arriving is not None:
            self.arriving.drop()
            self.arriving = None


@csrf_exempt
@needs(Right.VIEW, Right.OPERATE)
def upload(request: HttpRequest) -> HttpResponse:
    """Store a file and go on with the import of it.

    Nothing of the request is read before its person's rights are known, nor into another place
    than the shared folder; then the form's token is judged, as for every other form.
    """
    if request.method != "POST":
        return see("bulk-new", "import")
    handler = Streamed(request, asker_of(request).uploads)
    request.upload_handlers = [handler]
    try:
        return _protected(request, handler)
    finally:
        handler.drop()


@csrf_protect
def _protected(request: HttpRequest, handler: Streamed) -> HttpResponse:
    is_whole = FIELD in request.FILES
    if handler.problem is not None:
        return _refused(request, handler.problem)
    if not is_whole or handler.arriving is None:
        return render(request, "400.html", NO_FILE, status=422)
    try:
        name = handler.arriving.keep()
    except BulkError as problem:
        return _refused(request, problem)
    handler.arriving = None
    return SeeOther(f"{reverse('bulk-new', args=['import'])}?{urlencode({'source': name})}")


def _refused(request: HttpRequest, problem: BulkError) -> HttpResponse:
    said = {"title": f"Nothing was stored: {problem.job_code}", "why": str(problem)}
    return render(request, "400.html", said, status=422)
