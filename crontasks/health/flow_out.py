"""The links that only an outbound queue has: channel, relay, outbox, endpoint, deliveries."""

from datetime import timedelta
from typing import Final

from django.utils import timezone

from crontasks.health.checks import Finding
from crontasks.health.readiness import UNSENT_SECONDS
from integration.counting import so_many
from integration.delivery.relay.left_out import leaves_out
from integration.durations import rough
from integration.models import Provider, Queue
from integration.models.forwards import target_of
from integration.selectors.delivering.endpoints import of_queue
from integration.selectors.delivering.standing import Standing, shared_ledger
from integration.selectors.outbox.relaying import sending
from integration.selectors.queues.status import Situation

# Nothing waits for so long in Kafka while everything works.
QUIET: Final = timedelta(minutes=15)


def channel(queue: Queue) -> Finding:
    """Check that what names this queue may write to it: its channels and their targets."""
    targets = list(queue.targets.select_related("channel"))
    if not targets:
        return "No channel sends here; handlers name the queue themselves."
    for target in targets:
        if not target.channel.enabled:
            text = f"The channel {target.channel.name} is switched off: publish() writes nothing."
            return Situation(text, f"Switch the channel {target.channel.name} on.")
        if not target.enabled:
            text = f"The target {target} is switched off: publish() leaves it out."
            return Situation(text, "Switch the target on in its channel.")
    names = ", ".join(sorted({target.channel.name for target in targets}))
    word = "channel" if len(targets) == 1 else "channels"
    return f"The {word} {names}, switched on."


def switches(queue: Queue) -> Finding:
    """Check what stops reading; sending is decided where publish() is called."""
    text = "Outbound: what handlers give to publish() is sent."
    if not queue.enabled or queue.paused:
        word = "paused" if queue.enabled else "switched off"
        text = f"The queue is {word}, which stops no sending. {text}"
    return text


def lease(queue: Queue) -> Finding:
    relay = sending(queue)
    name = queue.provider.name
    who = name if relay.shards == 1 else f"{name} (shard {relay.shard})"
    if relay.in_doubt_since is not None:
        return Situation(
            f"The relay of {who} is in doubt since "
            f"{relay.in_doubt_since:%d %B %Y, %H:%M:%S} UTC and sends nothing. "
            f"{relay.in_doubt_text}",
            "Open the outbox in the console: look whether the topic has the messages of the "
            "batch, then say whether they were sent.",
        )
    if relay.trouble:
        what = "leaves topics out" if leaves_out(relay.trouble) else "waits for Kafka"
        text = f"The relay of {who} {what}. {relay.trouble}"
        return Situation(text, "Correct what it says; the relay tries again by itself.")
    if relay.owner:
        return f"{who} is relayed by {relay.owner}."
    if relay.shards > 1:
        return Situation(
            f"Nobody serves shard {relay.shard} of {name}, which sends {queue.topic}.",
            "Look whether a worker for the relay lives, and that it is not of an earlier release; "
            "its log says why it cannot take the shard.",
        )
    return "No relay is running at this moment; the next tick starts one."


def outbox(queue: Queue) -> Finding:
    outgoing = sending(queue)
    if outgoing.refused:
        return Situation(
            f"Kafka refused {so_many(outgoing.refused, 'message')} of this queue. "
            + (
                "What follows them waits, so that the order is kept." if queue.is_sequential else ""
            ),
            "Open the outbox in the console: read why, then send them again or give them up.",
        )
    if not outgoing.waiting or outgoing.oldest_at is None:
        return "Nothing waits to be sent."
    waiting = so_many(outgoing.shown_waiting, "message waits", "messages wait")
    if outgoing.is_capped:
        waiting = f"{outgoing.shown_waiting:,}+ messages wait"
    age = timezone.now() - outgoing.oldest_at
    if age.total_seconds() < UNSENT_SECONDS:
        return f"{waiting} for the relay."
    return Situation(
        f"{waiting} to be sent, the oldest for {age.total_seconds():,.0f} seconds.",
        "Fix what is broken above; if nothing is, check the log of the relay's worker.",
    )


def endpoint(queue: Queue) -> Finding:
    """Check that the endpoints take messages: switches first, then what their circuits say."""
    rows = of_queue(queue)
    stopped = next((row for row in rows if row.standing.stops), None)
    if stopped is not None:
        return Situation(f"{stopped.name}: {stopped.situation.why}", stopped.situation.next_step)
    names = ", ".join(f"{row.name} ({row.endpoint_type})" for row in rows)
    shaky = [row for row in rows if row.standing is Standing.SHAKY]
    if shaky:
        return f"{names}. {shaky[0].name}: {shaky[0].situation.why}"
    sharing = next((row for row in rows if row.shares_ledger), None)
    if sharing is not None:
        return f"{names}. {sharing.name}: {shared_ledger(sharing.shares_ledger).why}"
    return f"{names}: switched on and not down."


def unknown(queue: Queue) -> Finding:
    """Check that no messages that may have arrived wait for a person."""
    count = sum(row.open.unknown for row in of_queue(queue))
    if not count:
        return "Of every call it is known how it ended."
    text = f"{so_many(count, 'message')} may have arrived, and nobody has decided yet."
    return Situation(text, "Open the queue: look in the partner's system, then say which it is.")


def delivered(queue: Queue) -> Finding:
    """Tell when something was delivered last, beside what waits."""
    if queue.forwards:
        return _forwarded(queue)
    rows = of_queue(queue)
    last = max((at for row in rows if (at := row.quarter.last_delivered_at)), default=None)
    waiting = sum(row.waiting or 0 for row in rows)
    waits = so_many(waiting, "message waits", "messages wait") if waiting else "nothing waits"
    if last is not None:
        ago = rough((timezone.now() - last).total_seconds())
        return f"The last one {ago} ago; {waits}."
    minutes = int(QUIET.total_seconds() // 60)
    if not waiting:
        return f"Nothing within {minutes} minutes, and nothing waits."
    return Situation(
        f"Nothing within {minutes} minutes; {waits}.",
        "Fix what is broken above; if nothing is, check the last run of the queue.",
    )


def _forwarded(queue: Queue) -> Finding:
    """Check the rest of the way of what was forwarded: the relay and outbox of the other topic."""
    name, topic = target_of(queue.endpoint)
    provider = Provider.objects.filter(name=name, kind=Provider.Kind.KAFKA).first()
    if provider is None:
        why = f"There is no Kafka cluster {name}, to whose topic {topic} it forwards."
        return Situation(why, "Correct the endpoint under Endpoints, and test it there.")
    there = Queue(name=queue.name, provider=provider, topic=topic, kind=queue.kind)
    broken = [found for look in (lease, outbox) if isinstance(found := look(there), Situation)]
    if broken:
        return broken[0]
    waiting = sum(row.waiting or 0 for row in of_queue(queue))
    waits = so_many(waiting, "message waits", "messages wait") if waiting else "nothing waits"
    return f"What is read is written to {topic} of {name} in the same commit; {waits}."
