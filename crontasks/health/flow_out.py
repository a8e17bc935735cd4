"""The links that only an outbound queue has: channel, relay, outbox, endpoint, deliveries."""

from datetime import timedelta
from typing import Final

from django.utils import timezone

from crontasks.health.checks import HealthCheck, broken, good
from crontasks.health.readiness import UNSENT_SECONDS
from integration.counting import so_many
from integration.durations import rough
from integration.models import Queue
from integration.selectors.delivering.endpoints import of_queue
from integration.selectors.delivering.standing import Standing
from integration.selectors.outbox.relaying import sending

# Nothing waits for so long in Kafka while everything works.
QUIET: Final = timedelta(minutes=15)


def channel(queue: Queue) -> HealthCheck:
    """Check that what names this queue may write to it: its channels and their targets."""
    targets = list(queue.targets.select_related("channel"))
    if not targets:
        return good("channel", "No channel sends here; handlers name the queue themselves.")
    for target in targets:
        if not target.channel.enabled:
            text = f"The channel {target.channel.name} is switched off: publish() writes nothing."
            return broken("channel", text, f"Switch the channel {target.channel.name} on.")
        if not target.enabled:
            text = f"The target {target} is switched off: publish() leaves it out."
            return broken("channel", text, "Switch the target on in its channel.")
    names = ", ".join(sorted({target.channel.name for target in targets}))
    word = "channel" if len(targets) == 1 else "channels"
    return good("channel", f"The {word} {names}, switched on.")


def switches(queue: Queue) -> HealthCheck:
    """Check what stops reading; sending is decided where publish() is called."""
    text = "Outbound: what handlers give to publish() is sent."
    if not queue.enabled or queue.paused:
        word = "paused" if queue.enabled else "switched off"
        text = f"The queue is {word}, which stops no sending. {text}"
    return good("queue", text)


def lease(queue: Queue) -> HealthCheck:
    relay = sending(queue)
    if relay.in_doubt_since is not None:
        return broken(
            "lease",
            f"The relay of {queue.provider.name} is in doubt since "
            f"{relay.in_doubt_since:%d %B %Y, %H:%M:%S} UTC and sends nothing. "
            f"{relay.in_doubt_text}",
            "Open the outbox in the console: look whether the topic has the messages of the "
            "batch, then say whether they were sent.",
        )
    if relay.trouble:
        text = f"The relay of {queue.provider.name} waits for Kafka. {relay.trouble}"
        return broken("lease", text, "Correct what it says; the relay tries again by itself.")
    if relay.owner:
        return good("lease", f"{queue.provider.name} is relayed by {relay.owner}.")
    return good("lease", "No relay is running at this moment; the next tick starts one.")


def outbox(queue: Queue) -> HealthCheck:
    outgoing = sending(queue)
    if outgoing.refused:
        return broken(
            "outbox",
            f"Kafka refused {so_many(outgoing.refused, 'message')} of this queue. "
            + (
                "What follows them waits, so that the order is kept." if queue.is_sequential else ""
            ),
            "Open the outbox in the console: read why, then send them again or give them up.",
        )
    if not outgoing.waiting or outgoing.oldest_at is None:
        return good("outbox", "Nothing waits to be sent.")
    waiting = so_many(outgoing.shown_waiting, "message waits", "messages wait")
    if outgoing.is_capped:
        waiting = f"{outgoing.shown_waiting:,}+ messages wait"
    age = timezone.now() - outgoing.oldest_at
    if age.total_seconds() < UNSENT_SECONDS:
        return good("outbox", f"{waiting} for the relay.")
    return broken(
        "outbox",
        f"{waiting} to be sent, the oldest for {age.total_seconds():,.0f} seconds.",
        "Fix what is broken above; if nothing is, check the log of the relay's worker.",
    )


def endpoint(queue: Queue) -> HealthCheck:
    """Check that the endpoints take messages: switches first, then what their circuits say."""
    rows = of_queue(queue)
    stopped = next((row for row in rows if row.standing.stops), None)
    if stopped is not None:
        why, step = stopped.situation
        return broken("endpoint", f"{stopped.name}: {why}", step)
    names = ", ".join(f"{row.name} ({row.endpoint_type})" for row in rows)
    shaky = [row for row in rows if row.standing is Standing.SHAKY]
    if shaky:
        return good("endpoint", f"{names}. {shaky[0].name}: {shaky[0].situation.why}")
    return good("endpoint", f"{names}: switched on and not down.")


def unknown(queue: Queue) -> HealthCheck:
    """Check that no messages that may have arrived wait for a person."""
    count = sum(row.open.unknown for row in of_queue(queue))
    if not count:
        return good("unknown", "Of every call it is known how it ended.")
    text = f"{so_many(count, 'message')} may have arrived, and nobody has decided yet."
    return broken(
        "unknown", text, "Open the queue: look in the partner's system, then say which it is."
    )


def delivered(queue: Queue) -> HealthCheck:
    """Tell when something was delivered last, beside what waits."""
    rows = of_queue(queue)
    last = max((at for row in rows if (at := row.quarter.last_delivered_at)), default=None)
    waiting = sum(row.waiting or 0 for row in rows)
    waits = so_many(waiting, "message waits", "messages wait") if waiting else "nothing waits"
    if last is not None:
        ago = rough((timezone.now() - last).total_seconds())
        return good("delivered", f"The last one {ago} ago; {waits}.")
    minutes = int(QUIET.total_seconds() // 60)
    if not waiting:
        return good("delivered", f"Nothing within {minutes} minutes, and nothing waits.")
    return broken(
        "delivered",
        f"Nothing within {minutes} minutes; {waits}.",
        "Fix what is broken above; if nothing is, check the last run of the queue.",
    )
