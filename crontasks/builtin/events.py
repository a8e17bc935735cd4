"""Events: publishes what subscriptions wait for, by their channels."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from billiard.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import transaction

from crontasks.definitions import NoParameters, crontask
from crontasks.outcome import Context, Outcome, RunState
from integration.errors import IntegrationError
from integration.handlers.publishing import publish
from integration.models import EventSubscription, PendingEvent

logger = logging.getLogger(__name__)
VERSION: Final = 1
# What a subscription has in one commit, and of that singly for one kind and queue.
AT_ONCE: Final = 5_000
SINGLY: Final = 100


@crontask("events", title="Events", parameters=NoParameters)
class Events:
    """Publishes events to other systems, each by the channel of its subscription.

    An event leaves the list in the commit that writes its message to the outbox. Of more than a
    hundred of one kind and queue at a time, one event tells the number. While no event waits,
    there are no runs.
    """

    @staticmethod
    def has_work() -> bool:
        """Return whether an event waits to be published, or to be dropped."""
        return PendingEvent.objects.exists()

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        counts: Counter[str] = Counter()
        for subscription in EventSubscription.objects.order_by("pk"):
            if context.should_stop():
                break
            try:
                counts += publish_waiting(subscription)
            except IntegrationError as problem:
                # What waits for it stays, and the others have theirs all the same.
                context.say(f"{subscription.name}: {problem.code}: {problem.sentence}")
                counts["failed"] += 1
            except SoftTimeLimitExceeded:
                raise
            except Exception as failure:
                # A bug that one subscription meets keeps no events of the others back.
                logger.exception(
                    "the events of a subscription could not be published",
                    extra={"subscription": subscription.name},
                )
                context.say(f"{subscription.name}: {type(failure).__name__}: {failure}")
                counts["failed"] += 1
        state = RunState.FAILED if counts["failed"] else RunState.DONE
        return Outcome(counts=+counts, state=state)


def publish_waiting(subscription: EventSubscription) -> Counter[str]:
    """Publish what waits for it, or drop it where it is off; how many of each.

    Raises what publish() raises; nothing is published or taken away then.
    """
    counts: Counter[str] = Counter()
    with transaction.atomic(using=settings.SLUICE_DATABASE):
        # One at a time, so that order holds; what notes events meanwhile does not wait for it.
        locked = EventSubscription.objects.select_for_update(skip_locked=True, no_key=True)
        current = locked.filter(pk=subscription.pk).first()
        if current is None:
            return counts
        rows = list(PendingEvent.objects.filter(subscription=current).order_by("id")[:AT_ONCE])
        if current.enabled:
            for told, key in bodies(rows):
                publication = publish(current.channel.name, told, key=key)
                counts["published" if publication.ids else "dropped"] += 1
        else:
            counts["dropped"] += len(rows)
        PendingEvent.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return counts


def bodies(rows: Sequence[PendingEvent]) -> Iterator[tuple[dict[str, Any], str]]:
    """What is told of these events, with the key of each: singly, or as a number of them."""
    crowded = {
        group
        for group, count in Counter((row.kind, row.key) for row in rows).items()
        if count > SINGLY
    }
    summed: dict[tuple[str, str], list[PendingEvent]] = {}
    for row in rows:
        group = row.kind, row.key
        if group in crowded:
            summed.setdefault(group, []).append(row)
        else:
            yield _told(row, row.subject, 1), row.key
    for (_, key), many in summed.items():
        # Of a summary only what all have in common is true.
        first = many[0].subject
        common = {
            name: value
            for name, value in first.items()
            if all(row.subject.get(name) == value for row in many)
        }
        yield _told(many[-1], common, len(many)), key


def _told(row: PendingEvent, subject: dict[str, Any], count: int) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": str(row.event_id),
        "kind": row.kind,
        "time": row.at.isoformat(),
        "deployment": settings.SLUICE_DEPLOYMENT,
        "actor": (row.actor or None) if count == 1 else None,
        "count": count,
        "subject": subject,
    }
