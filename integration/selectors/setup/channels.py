"""Publish channels as the set-up pages show them: their targets, what fits, test messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, Q, QuerySet

from integration.counting import so_many
from integration.models import (
    ChannelTarget,
    ConfigurationChange,
    Endpoint,
    OutboxRow,
    PublishChannel,
    Queue,
)
from integration.models.configuration_change import TEST_MESSAGE
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup.nouns import Use, endpoints
from integration.selectors.tracking.rows import of_messages

TESTS: Final = 10


@dataclass(frozen=True, slots=True)
class TestSent:
    """One message of a test as the audit has it, and its row of the outbox if still there.

    `ended` is how its latest try ended, empty before the first.
    """

    # No test of ours: pytest looks for classes of this name.
    __test__ = False

    change: ConfigurationChange
    row: OutboxRow | None
    ended: str


def channels(scope: Scope = EVERYTHING) -> QuerySet[PublishChannel]:
    """Every publish channel, which all people share, with its targets in this scope counted."""
    condition = Q() if scope.systems is None else Q(targets__system__in=sorted(scope.systems))
    rows = PublishChannel.objects.select_related("structure")
    return rows.annotate(target_count=Count("targets", filter=condition)).order_by("name")


def targets(scope: Scope = EVERYTHING) -> QuerySet[ChannelTarget]:
    """The targets that belong to this scope's systems."""
    rows = ChannelTarget.objects.filter(scope.within("system"))
    related = ("channel", "system", "queue__provider", "queue__endpoint", "endpoint")
    return rows.select_related(*related).order_by("channel__name", "system__name")


def uses_of_channel(channel: PublishChannel, scope: Scope) -> list[Use]:
    """Its targets in this scope; those of others are told as a number, without a name."""
    rows = targets(scope).filter(channel=channel)
    uses = [Use("channeltarget", t.pk, str(t), f"target, queue {t.queue}") for t in rows]
    hidden = channel.targets.count() - len(uses)
    if hidden:
        uses.append(Use("", 0, so_many(hidden, "target"), "of systems that are hidden from you"))
    uses += [
        Use("eventsubscription", one.pk, one.name, "publishes events by it")
        for one in channel.event_subscriptions.all()
    ]
    return uses


def stopped_with_channel(channel: PublishChannel) -> str:
    """Say what switching it off stops, as a sentence."""
    count = channel.targets.filter(enabled=True).count()
    if not count:
        return "nothing: it has no target that is switched on."
    return (
        f"all that programs publish to its {so_many(count, 'target')}. Nothing of that is sent "
        "later; what is in the outbox already is still sent."
    )


def stopped_with_target(target: ChannelTarget) -> str:
    """Say what switching it off stops, as a sentence."""
    return (
        f"each message of {target.channel} to {target.system} that is published from then on; "
        "none of them is sent later. Other targets keep theirs. To keep messages until the "
        "partner is back, switch the external system off instead."
    )


def queues_for(scope: Scope, system: int | None, *, besides: int | None = None) -> QuerySet[Queue]:
    """Outbound queues of this external system or of none; of any where it is not known yet.

    `besides` is one that may be kept, whatever the scope is.
    """
    fits = scope.within("system")
    if system is not None:
        fits &= Q(system=system) | Q(system=None)
    if besides is not None:
        fits |= Q(pk=besides)
    rows = Queue.objects.filter(fits, direction=Queue.Direction.OUTBOUND)
    return rows.select_related("system", "endpoint").order_by("name")


def endpoints_for(scope: Scope, system: int | None) -> QuerySet[Endpoint]:
    """Endpoints of this external system; of any where it is not known yet."""
    rows = endpoints(scope)
    return rows if system is None else rows.filter(system=system)


def way_of(queue: Queue | None, endpoint: Endpoint | None) -> str:
    """Say where messages of such a target end, as a sentence."""
    if queue is None:
        return ""
    last = endpoint or queue.endpoint
    if last is None:
        return f"The partner reads the topic {queue.topic} itself."
    whose = "" if endpoint is not None else ", the queue's own endpoint"
    return f"From {queue.topic} they are delivered to {last.name}{whose}."


def is_wholly_known(channel: PublishChannel, scope: Scope) -> bool:
    """Return whether all that a message of the channel would reach belongs to this scope."""
    enabled = channel.targets.filter(enabled=True)
    return not enabled.exclude(scope.within("system")).exists() if scope.systems else scope.is_whole


def test_messages(channel: PublishChannel, scope: Scope) -> list[TestSent]:
    """The latest test messages of the channel, in three queries."""
    rows: list[Any] = list(
        ConfigurationChange.objects.filter(
            scope.within("system"), kind=TEST_MESSAGE, after__channel=channel.name
        )
        .select_related("system")
        .order_by("-at", "-id")[:TESTS]
    )
    outbox = OutboxRow.objects.in_bulk([row.after["outgoing_row"] for row in rows])
    ends = _ends(rows)
    return [
        TestSent(row, outbox.get(row.after["outgoing_row"]), ends.get(row.subject, ""))
        for row in rows
    ]


def _ends(rows: Sequence[Any]) -> dict[str, str]:
    """Tell how the latest try of each test message ended. Days before the first are not read."""
    by_queue: dict[int, list[str]] = {}
    for row in rows:
        by_queue.setdefault(int(row.after["queue_id"]), []).append(row.subject)
    return {
        track.message_id: track.ended
        for queue, ids in by_queue.items()
        for track in of_messages(ids, queue, rows[-1].at)
    }
