"""Words for runs: the ending of a queue's run, and the counts of any run."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from integration.delivery.report import RunEnding
from integration.policy.states import Ended


@dataclass(frozen=True, slots=True)
class Said:
    """A word of the engine's for people: short, explained, and the engine's own `code`."""

    words: str
    why: str
    code: str


@dataclass(frozen=True, slots=True)
class Counted:
    """So many of what `words` names, in the number that fits; `code` is the run's own name."""

    count: int
    words: str
    code: str


ENDINGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        RunEnding.DRAINED: ("Read everything", "nothing was left to read"),
        RunEnding.YIELDED: ("Gave up its slot", "another queue was waiting for a worker"),
        RunEnding.STOPPED: (
            "Was stopped",
            "the worker shut down, or the queue was paused or switched off",
        ),
        RunEnding.BACKOFF: ("Waits for a retry", "the first message failed and is tried again"),
        RunEnding.BLOCKED: ("Blocked", "it continues after a person's decision"),
        RunEnding.BRAKED: ("Too many failures", "it continues when a person resumes it"),
        RunEnding.OUTAGE: ("Outage", "something it needs is down; it checks again by itself"),
        RunEnding.WAITING: ("Waiting", "something it needs is switched off or not installed"),
        RunEnding.LOST: (
            "Lost its lock",
            "the database connection or the partition's lock was lost",
        ),
        RunEnding.NOTHING_FREE: ("Found nothing free", "other runs own every partition"),
        "FAILED": ("Failed", "it could not do its work"),
    }
)
# (one, several), in the order they are told: what needs a person stands first.
Forms = Mapping[str, tuple[str, str]]
OF_MESSAGES: Final[Forms] = MappingProxyType(
    {
        Ended.HOLD: ("put on hold", "put on hold"),
        Ended.RETRY: ("to be retried", "to be retried"),
        Ended.EXPIRED: ("expired in Kafka", "expired in Kafka"),
        Ended.APPLIED: ("applied", "applied"),
        Ended.DELIVERED: ("delivered", "delivered"),
        Ended.RETURNED: ("sent back to its topic", "sent back to their topics"),
        Ended.SUPERSEDED: ("superseded by newer data", "superseded by newer data"),
        Ended.DUPLICATE: ("repeat dropped", "repeats dropped"),
        Ended.REFUSED: ("refused at once", "refused at once"),
        Ended.DELETED: ("passed over as deleted", "passed over as deleted"),
        Ended.PASSED: ("passed over as not ours", "passed over as not ours"),
        Ended.PARKED: ("parked", "parked"),
        Ended.STALE: ("retry marker no longer needed", "retry markers no longer needed"),
    }
)
BY_TASK: Final[Mapping[str, Forms]] = MappingProxyType(
    {
        # Of a simulation too, which removes nothing: its text says so.
        "errors_cleanup": {
            "RESOLVED": ("resolved failure", "resolved failures"),
            "DELETED": ("deleted failure", "deleted failures"),
        },
        "history_cleanup": {
            "outbox": ("outgoing message removed", "outgoing messages removed"),
            "tracking": ("tracked message removed", "tracked messages removed"),
            "batches": ("batch number removed", "batch numbers removed"),
            "runs": ("run removed", "runs removed"),
            "notices": ("notice removed", "notices removed"),
            "heartbeats": ("heartbeat removed", "heartbeats removed"),
            "operation_messages": (
                "message of an operation removed",
                "messages of operations removed",
            ),
            "operations": ("operation removed", "operations removed"),
            "uploads": ("upload removed", "uploads removed"),
            "stages": ("table of a bulk run removed", "tables of bulk runs removed"),
            "bulk_runs": ("bulk run removed", "bulk runs removed"),
            "lost_runs": ("run found lost", "runs found lost"),
        },
        # What passes an error queue are copies of failures, and failures that are read once more.
        "error_queue_consumer": {Ended.PASSED: ("already among the failures here",) * 2},
        "lag_monitor": {"unreachable": ("provider unreachable", "providers unreachable")},
        "rescue": {
            "rescued": ("message rescued", "messages rescued"),
            "swept": ("rescued message removed", "rescued messages removed"),
            "gone": ("offset gone before", "offsets gone before"),
            "busy": ("partition in work", "partitions in work"),
        },
        "retention_sync": {
            "changed": ("queue changed", "queues changed"),
            "different": ("queue differs", "queues differ"),
            "unreachable": ("queue not checked", "queues not checked"),
        },
        "xa_recovery": {
            "commit": ("branch committed", "branches committed"),
            "rollback": ("branch rolled back", "branches rolled back"),
            "failed": ("not settled now", "not settled now"),
        },
        "events": {
            "published": ("event published", "events published"),
            "dropped": ("event dropped", "events dropped"),
            "failed": ("subscription waits", "subscriptions wait"),
        },
        "reprocessing": {"RELEASED": ("released", "released")},
        "dead_letters": {
            "queues": ("error queue made", "error queues made"),
            "RETURNED": ("sent back", "sent back"),
            "RESENDS_SPENT": ("left to people: sent often enough",) * 2,
            "RESEND_LOOP": ("left to people: it would go round", "left to people: they would loop"),
            "RETURN_REFUSED": ("left to people: no topic to go to",) * 2,
        },
    }
)


def ending(code: str) -> Said | None:
    """The ending of a queue's run; None when it did not end as a queue's run does."""
    if not code:
        return None
    words, why = ENDINGS.get(code, (_spelt(code).capitalize(), "as the engine reports it"))
    return Said(words, why, code)


def counted(counts: Mapping[str, int], *, task: str, is_consumer: bool) -> tuple[Counted, ...]:
    """The counts of a run in words; a count of a custom cron task keeps its name."""
    of_task = BY_TASK.get(task, {})
    known = {**OF_MESSAGES, **of_task} if is_consumer else of_task
    places = {code: place for place, code in enumerate(known)}
    codes = sorted(counts, key=lambda code: places.get(code, len(places)))
    return tuple(_counted(code, counts[code], known.get(code), task) for code in codes)


def _counted(code: str, count: int, forms: tuple[str, str] | None, task: str) -> Counted:
    if forms is not None:
        return Counted(count, forms[0] if count == 1 else forms[1], code)
    # Whatever else a reprocessing counts is the code of a refusal.
    words = f"not released: {_spelt(code)}" if task == "reprocessing" else _spelt(code)
    return Counted(count, words, code)


def _spelt(code: str) -> str:
    return code.replace("_", " ").lower()
