"""Text for support outside: ids, positions and times, and nothing of the content."""

import platform
from datetime import datetime
from typing import Final

import django
from django.conf import settings

from integration.counting import so_many
from integration.models import MessageError
from integration.policy.failure import Failure, FailureClass, cause_of
from integration.selectors.failures.failure import FailureDetail
from integration.selectors.failures.payloads import row_of
from integration.version import sluice_version

NONE: Final = "-"


def support_text(detail: FailureDetail) -> str:
    """A block of text about a failure: no payload, no key, no header, no value quoted by a text."""
    error, queue = detail.error, detail.error.queue
    times = so_many(error.attempts, "try", "tries")
    facts = {
        "Failure": str(error.id),
        "State": f"{error.state}, version {error.version}, {times}",
        "Code": f"{error.code} ({error.failure_class})",
        "Text": cause_of(Failure(FailureClass.PERMANENT, error.code, error.text)) or NONE,
        "Cause": detail.cause or NONE,
        "Service": error.interface or NONE,
        "Queue": f"{queue.name} ({queue.kind})",
        **_place(error),
        "Arrival": _pair(error.arrival_batch, error.arrival_index),
        "First failed": _moment(error.first_failed_at),
        "Last failed": _moment(error.last_failed_at),
        "Edited": "yes" if detail.is_edited else "no",
        "Environment": f"{settings.SLUICE_ENVIRONMENT} of {settings.SLUICE_DEPLOYMENT}",
        "Versions": f"Sluice {sluice_version()}, Python {platform.python_version()}, "
        f"Django {django.get_version()}",
    }
    tries = [
        f"{_named(one.number)}: {_moment(one.at)} {one.ended} {one.code}" for one in detail.tries
    ]
    width = max(map(len, facts)) + 1
    lines = [f"{name + ':':<{width}} {value}" for name, value in facts.items()]
    return "\n".join([*lines, *tries[-10:]])


def _place(error: MessageError) -> dict[str, str]:
    row = row_of(error)
    if row is not None:
        return {"Row": f"line {row.line} of {row.file}", "Bulk run": error.topic_uuid}
    position = f"{error.queue.topic} [{error.partition}] offset {error.offset}"
    return {"Position": position, "Topic id": error.topic_uuid}


def _named(number: int) -> str:
    """Nought is the number of a message that no handler was given."""
    return f"Try {number}" if number else "Could not be tried"


def _pair(batch: int | None, index: int | None) -> str:
    return NONE if batch is None else f"batch {batch}, place {index}"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
