"""The links that only an outbound queue has: the relay, its lease and what waits in the outbox."""

from datetime import timedelta
from typing import Final

from django.utils import timezone

from crontasks.health import live_processes
from crontasks.health.links import Link, broken, good
from integration.counting import so_many
from integration.models import Queue
from integration.selectors.outbox.relaying import sending

# The relay sends within a second; a row that is this old is stuck.
STUCK: Final = timedelta(seconds=60)


def switches(queue: Queue) -> Link:
    """What people switch stops reading; sending is decided where publish() is called."""
    text = "Outbound: what handlers give to publish() is sent."
    if not queue.enabled or queue.paused:
        word = "paused" if queue.enabled else "switched off"
        text = f"The queue is {word}, which stops no sending. {text}"
    return good("queue", text)


def relay(queue: Queue) -> Link:  # noqa: ARG001 - every link is asked in the same way
    hearts = live_processes.alive("worker")
    alive = live_processes.serving(hearts, live_processes.RELAY)
    if not alive:
        lack = live_processes.lack(hearts, live_processes.RELAY)
        return broken("relay", lack.why, lack.next_step)
    return good(
        "relay", f"{len(alive)} alive for the relay. {live_processes.slots_in_words(alive)}"
    )


def lease(queue: Queue) -> Link:
    found = sending(queue)
    if found.in_doubt_since is not None:
        return broken(
            "lease",
            f"The relay of {queue.provider.name} is in doubt since "
            f"{found.in_doubt_since:%d %B %Y, %H:%M:%S} UTC and sends nothing. "
            f"{found.in_doubt_text}",
            "Open the outbox in the console: look whether the topic has the messages of the "
            "batch, then say whether they were sent.",
        )
    if found.owner:
        return good("lease", f"{queue.provider.name} is relayed by {found.owner}.")
    return good("lease", "Nobody relays at this moment; the next tick starts a relay.")


def outbox(queue: Queue) -> Link:
    found = sending(queue)
    if found.refused:
        return broken(
            "outbox",
            f"Kafka refused {so_many(found.refused, 'message')} of this queue. "
            + (
                "What follows them waits, so that the order is kept." if queue.is_sequential else ""
            ),
            "Open the outbox in the console: read why, then send them again or give them up.",
        )
    if not found.waiting or found.oldest_at is None:
        return good("outbox", "Nothing waits to be sent.")
    waiting = so_many(found.shown_waiting, "message waits", "messages wait")
    if found.is_capped:
        waiting = f"{found.shown_waiting:,}+ messages wait"
    age = timezone.now() - found.oldest_at
    if age < STUCK:
        return good("outbox", f"{waiting} for the relay.")
    return broken(
        "outbox",
        f"{waiting} to be sent, the oldest for {age.total_seconds():,.0f} seconds.",
        "Mend what is broken above; if nothing is, look at the log of the relay's worker.",
    )
