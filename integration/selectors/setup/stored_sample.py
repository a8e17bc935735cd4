"""What a test message of a service may begin with: made up, or copied from a stored message."""

import inspect
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from integration.codec import decode_headers
from integration.envelope import Flaw, read
from integration.models import EnterpriseService, MessageError
from integration.policy.states import Ended, ErrorState
from integration.selectors.failures.edits import Part, text_of
from integration.selectors.scope import Scope
from integration.selectors.setup.sample_document import sample_payload
from integration.selectors.setup.takers import handler_of

# So many of the newest failures are looked at for one that was applied in the end.
LOOKED_AT: Final = 200
# And so many of these are read: a stored message may be no text, or far too long for a form.
READ: Final = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """A text to begin with; the hint says where it is from, or what to write in its place.

    `source` is the failure whose payload it is, where it is one.
    """

    payload: str
    hint: str = ""
    source: UUID | None = None


def sample_of(service: EnterpriseService | None, scope: Scope, *, may_see: bool) -> Sample:
    """A sample of this service; without a structure, of its stored messages.

    A stored one is shown only to those who `may_see` payloads, and only from queues in `scope`.
    Costs two bounded queries.
    """
    if service is None or service.structure is not None:
        return Sample(sample_payload(service))
    if not may_see:
        why = "You lack the right to see payloads, so no stored message is copied here."
        return Sample("", f"{why} {_to_write(service)}")
    for stored in _candidates(service, scope):
        text = _text(stored)
        if text:
            return Sample(text, _origin(stored), stored.pk)
    why = f"No message of {service.interface} is stored that could be copied here."
    return Sample("", f"{why} {_to_write(service)}")


def _candidates(service: EnterpriseService, scope: Scope) -> list[MessageError]:
    """The newest failures of the service, first those that were applied in the end."""
    known = MessageError.objects.filter(
        scope.within("queue__system"), interface=service.interface, payload__isnull=False
    ).order_by("-last_failed_at", "id")
    rows = list(known.values_list("pk", "state", "ended")[:LOOKED_AT])
    rows.sort(key=lambda row: not _is_applied(row[1], row[2]))
    wanted = [pk for pk, _, _ in rows[:READ]]
    found = MessageError.objects.in_bulk(wanted)
    return [found[pk] for pk in wanted if pk in found]


def _is_applied(state: str, ended: str) -> bool:
    return (state, ended) == (ErrorState.RESOLVED, Ended.APPLIED)


def _text(stored: MessageError) -> str | None:
    record, headers = stored.current_payload or b"", decode_headers(stored.headers)
    if isinstance(read(record, headers), Flaw):
        return None
    return text_of(record, headers, Part.DOCUMENT)


def _origin(stored: MessageError) -> str:
    begun = f"Copied from a real message in {stored.queue.name}"
    if _is_applied(stored.state, stored.ended):
        return (
            f"{begun} that was applied: change what names its object unless a repeat is harmless."
        )
    return f"{begun} that failed with {stored.code}: correct it, or it will fail again."


def _to_write(service: EnterpriseService) -> str:
    handler = handler_of(service.interface)
    if handler is None:
        return "Put a message here as its sender writes it."
    told = (inspect.getdoc(handler.call) or "").partition("\n\n")[0].replace("\n", " ").strip()
    about = f" Its author says: “{told}”" if told else ""
    return f"Put a message here as the handler {handler.origin} takes it.{about}"
