"""Editing a held message: the text as it is known to people, checked before it is kept."""

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.failures.checks import CheckShown, shown
from console.failures.pages import KIND
from console.failures.waits import what_follows_release
from console.layout import reveals, trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import (
    actor_of,
    own_page,
    reason_of,
    see,
    see_again,
    tell_problem,
    version_of,
)
from integration.actions import check as checks
from integration.actions import failures
from integration.actions.errors import PayloadTooLargeError
from integration.envelope import DEFAULT
from integration.errors import IntegrationError
from integration.policy.states import ErrorState
from integration.selectors.failures.diffs import Diff, difference
from integration.selectors.failures.edits import (
    Editable,
    MisfitTextError,
    Part,
    editable,
    text_of,
)
from integration.selectors.failures.failure import UNKNOWN
from integration.selectors.failures.faults import Fault, faults_of
from integration.selectors.masking.errors import WHOLE_RECORD, MaskMovedError
from integration.selectors.masking.made import Made
from integration.selectors.masking.rules import masks


@dataclass(frozen=True, slots=True)
class Wording:
    """The sentences after a save, a save with release, and a save without the release."""

    level: int
    saved: str
    released: str
    stopped: str


CHANGED = Wording(
    messages.SUCCESS,
    "Saved. The original is kept; release the message when it is ready.",
    "Saved and released.",
    "The edit is saved, but the message was not released.",
)
UNCHANGED = Wording(
    messages.INFO,
    "Nothing was saved: the text is the same as before.",
    "Released as it was: the text is the same as before, so nothing was saved.",
    "The text is the same as before, and the message was not released.",
)

# How the audit names the page.
EDITOR: Final = "in the editor"
NO_FILE: Final = (
    "No file was chosen, so nothing was saved. Download the message, correct it, and choose the "
    "corrected file here."
)
FILE_GONE: Final = (
    "The file was not sent again, so nothing was saved: browsers do not keep it. Choose it once "
    "more; or press the button again to go on with the text below."
)
NOT_UTF_8: Final = (
    "The file is not UTF-8 text, so nothing was saved. Save it as UTF-8 in your editor and choose "
    "it again."
)


@dataclass(slots=True)
class Page:
    """The form's contents besides its text: faults, a check, or the version of somebody else."""

    text: str | None
    record: bytes
    faults: list[Fault] = field(default_factory=list)
    check: CheckShown | None = None
    status: int = 200
    is_lost: bool = False


@needs(Right.VIEW, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD)
def edit(request: HttpRequest, error_id: UUID) -> HttpResponse:
    message = _found(request, error_id)
    if request.method == "POST":
        return _keep(request, message)
    page = Page(message.text, message.record)
    if not message.is_tombstone:
        page.faults = _faults(request, message, page)
    return _form(request, message, page)


@needs(Right.VIEW, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD)
def check(request: HttpRequest, error_id: UUID) -> HttpResponse:
    """Run the handler on the form's text and show what it would do; nothing is kept."""
    if request.method != "POST":
        return see("edit", error_id)
    message = _found(request, error_id)
    page = _posted(request, message)
    if page.status != HTTPStatus.OK:
        return _form(request, message, page)
    try:
        checked = checks.check(message.error.pk, message.tried(page.record))
        # Who reveals a message sees what would be made of it, too.
        made = None if message.is_revealed else Made(message.error, masks())
        page.check = shown(checked, message.cover, made)
    except IntegrationError as problem:
        tell_problem(request, problem)
        page.status = 409
    return _form(request, message, page)


@require_GET
@needs(Right.VIEW, Right.VIEW_PAYLOAD)
def document(request: HttpRequest, error_id: UUID) -> HttpResponse:
    """The document out of its envelope, as a file: never rendered by the browser."""
    is_revealed = reveals.is_revealed(request, KIND, error_id)
    scope = scope_of(request.user)
    message = editable(error_id, scope, Part.DOCUMENT, is_revealed=is_revealed)
    if message is None or message.part is not Part.DOCUMENT or message.content is None:
        raise Http404("There is no document in an envelope to download; download the record.")
    trail.note_download(request, "messageerror", error_id, f"{error_id}.txt")
    headers = {"Content-Disposition": f'attachment; filename="{error_id}.txt"'}
    return HttpResponse(
        message.content.encode(), content_type="application/octet-stream", headers=headers
    )


def _given(request: HttpRequest) -> QueryDict:
    return request.POST if request.method == "POST" else request.GET


def _found(request: HttpRequest, error_id: UUID) -> Editable:
    said = _given(request).get("part", "")
    part = Part(said) if said in set(Part) else None
    is_revealed = reveals.is_revealed(request, KIND, error_id)
    message = editable(error_id, scope_of(request.user), part, is_revealed=is_revealed)
    if message is None:
        raise Http404(UNKNOWN)
    return message


def _posted(request: HttpRequest, message: Editable) -> Page:
    """The form as it was sent; its status tells where no record can be made of it."""
    text = request.POST.get("text", "")
    try:
        record = _asked(request, message)
    except (MisfitTextError, MaskMovedError) as problem:
        record = str(problem)
    if isinstance(record, str):
        messages.warning(request, record)
        return Page(text, message.record, status=422)
    page = Page(text, record)
    page.faults = _faults(request, message, page)
    return page


def _keep(request: HttpRequest, message: Editable) -> HttpResponse:
    page = _posted(request, message)
    if page.status != HTTPStatus.OK:
        return _form(request, message, page)
    if page.faults and request.POST.get("anyway") != "1":
        page.status = 422
        return _form(request, message, page)
    try:
        version = failures.edit(
            message.error.pk,
            version=_seen(request, message),
            actor=actor_of(request),
            payload=page.record,
            reason=reason_of(request),
        )
    except IntegrationError as problem:
        tell_problem(request, problem)
        page.status, page.is_lost, page.faults = 409, message.error.state == ErrorState.HOLD, []
        return _form(request, message, page)
    words = UNCHANGED if version == message.error.version else CHANGED
    if request.POST.get("then") == "release" and has(request.user, Right.OPERATE):
        return _release(request, message, version, words)
    messages.add_message(request, words.level, words.saved)
    return see_again(request, "failure", message.error.pk)


def _seen(request: HttpRequest, message: Editable) -> int:
    """The version the person looked at: that of somebody else, if they say they have read it."""
    seen = version_of(request)
    return message.error.version if request.POST.get("over") == str(message.error.version) else seen


def _asked(request: HttpRequest, message: Editable) -> bytes | str:
    """The record that the form asks for, or a sentence on why there is none."""
    file, inner = request.FILES.get("file"), request.FILES.get("document")
    upload = file or inner
    if not isinstance(upload, UploadedFile):
        if "text" not in request.POST:
            return NO_FILE
        if "of_file" in request.POST and message.text is not None:
            # The page told of that file: the text beside it is another one, that nobody meant.
            return FILE_GONE
        return _composed(request, message)
    # What the engine would not read is not read here either.
    if upload.size is None or upload.size > DEFAULT.max_bytes:
        return str(PayloadTooLargeError(size=upload.size or 0, limit=DEFAULT.max_bytes))
    content: bytes = upload.read()
    if upload is file:
        return message.replaced_by(content)
    record = message.with_document(content)
    return NOT_UTF_8 if record is None else record


def _composed(request: HttpRequest, message: Editable) -> bytes:
    """Raises MisfitTextError, MaskMovedError."""
    is_whole = request.POST.get("part") == Part.RECORD
    if is_whole and message.is_masked and message.part is Part.DOCUMENT:
        # It was opened while the message was revealed, or before there was a rule.
        raise MaskMovedError(WHOLE_RECORD)
    return message.composed(request.POST.get("text", ""))


def _release(request: HttpRequest, message: Editable, version: int, words: Wording) -> HttpResponse:
    try:
        failures.release(
            message.error.pk,
            version=version,
            actor=actor_of(request),
            reason=reason_of(request),
        )
    except IntegrationError as problem:
        messages.warning(request, f"{words.stopped} {problem}")
    else:
        goes_on = what_follows_release(message.error.pk, scope_of(request.user))
        messages.success(request, f"{words.released} {goes_on}")
    return see_again(request, "failure", message.error.pk)


def _form(request: HttpRequest, message: Editable, page: Page) -> HttpResponse:
    """The person's text is never lost: a refused form shows it again."""
    trail.note_view(request, "messageerror", message.error.pk, EDITOR)
    context = {
        "message": message,
        # A text that is shown again stands for the part that it was sent for.
        "part": request.POST.get("part", message.part),
        "text": None if message.text is None and not page.text else page.text,
        "faults": page.faults,
        "check": page.check,
        "is_of_file": bool(request.FILES),
        "is_repeated": page.check is not None and page.check.repeats(f.text for f in page.faults),
        "changes": _changes(request, message, page),
        "theirs": _theirs(request, message, page),
        "limit": DEFAULT.max_bytes,
        "next": own_page(_given(request).get("next", "")),
        "seen": version_of(request) if request.method == "POST" else message.error.version,
    }
    return render(request, "console/failures/edit.html", context, status=page.status)


def _faults(request: HttpRequest, message: Editable, page: Page) -> list[Fault]:
    """The faults, placed in the document if that is what the person sees."""
    sees_document = message.part is Part.DOCUMENT or not message.has_envelope
    text = _text(request, message, page) if sees_document else None
    found = faults_of(
        page.record,
        message.headers,
        message.error.interface,
        text=text,
        reading=message.reading,
    )
    return [replace(fault, text=message.cover.text(fault.text)) for fault in found]


def _changes(request: HttpRequest, message: Editable, page: Page) -> Diff | None:
    """The text of the form, or the one that is kept, against the original."""
    if message.original is None or page.record == message.original:
        return None
    return _between(message, message.original, _text(request, message, page))


def _theirs(request: HttpRequest, message: Editable, page: Page) -> Diff | None:
    """The changes that this person's text would make in somebody else's."""
    if not page.is_lost:
        return None
    return _between(message, message.record, _text(request, message, page))


def _text(request: HttpRequest, message: Editable, page: Page) -> str | None:
    """The text as the person sees it, though it may not be readable as a record any more."""
    if page.text and not request.FILES:
        return page.text
    return _text_of(message, page.record)


def _text_of(message: Editable, record: bytes) -> str | None:
    mask = message.cover.mask
    return text_of(record, message.headers, message.part, message.reading, mask=mask)


def _between(message: Editable, record: bytes, after: str | None) -> Diff | None:
    before = _text_of(message, record)
    return None if before is None or after is None else difference(before, after)
