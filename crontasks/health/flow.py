"""Why nothing flows: every link between a queue's topic and the database, looked at in order."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django.db.models import QuerySet
from django.utils import timezone

from crontasks.cursor import django_cursor
from crontasks.health import crew, flow_out, flow_sending
from crontasks.health.crew import ALIVE
from crontasks.health.links import Link, broken, good
from crontasks.models import CronInstance
from crontasks.schedule.moments import upcoming
from integration.counting import so_many
from integration.delivery.policy.states import PartitionState
from integration.errors import IntegrationError
from integration.handlers.registry import registry as handlers
from integration.kafka import admin
from integration.models import Queue
from integration.selectors.delivering.senders import sends
from integration.selectors.queues.status import situation
from integration.store import locks

# A tick this late means that beat does not work on the instance.
_LATE: Final = timedelta(seconds=30)
_SKEW_SECONDS: Final = 2.0
_OWNERS: Final = f"""
    SELECT p.partition, s.owner, l.held, s.lease_until < clock_timestamp() AS lapsed
    FROM integration_queuepartition p
    LEFT JOIN integration_partitionlease s ON s.partition_id = p.id AND s.released_at IS NULL
    CROSS JOIN LATERAL (SELECT {locks.is_held(locks.LockClass.PARTITION, "p.id")} AS held) l
    WHERE p.queue_id = %s ORDER BY p.partition"""  # noqa: S608 - constants
_REQUEST_AGE: Final = (
    "SELECT extract(epoch FROM clock_timestamp() - start_requested_at)::float "
    "FROM integration_queue WHERE id = %s"
)


def check_flow(queue: Queue) -> list[Link]:
    """Inbound: provider, system, service, queue, topic, instance, beat, worker, lock, position.

    Outbound: provider, queue, topic, instance of the relay, beat, relay, lease, outbox; and
    where it is delivered from here, the rest of the way to its endpoint. Asks the broker, the
    database and nobody else; changes nothing. Every link is looked at, as more
    than one may be broken; the first broken one is the one to mend first. Raises Django's
    OperationalError when the database does not answer.
    """
    return [look(queue) for look in walk(queue)]


def walk(queue: Queue) -> tuple[Callable[[Queue], Link], ...]:
    """The links of this queue in the order of its messages' way."""
    if queue.direction == Queue.Direction.INBOUND:
        return INBOUND_WALK
    return SENDING_WALK if sends(queue) else OUTBOUND_WALK


def provider(queue: Queue) -> Link:
    reach = admin.reachable(queue.provider)
    if reach.ok:
        return good("provider", reach.text)
    return broken(
        "provider",
        reach.text,
        f"Check the bootstrap servers and credentials of {queue.provider.name}, and the network.",
    )


def system(queue: Queue) -> Link:
    if queue.system is None:
        return good("system", "The queue belongs to no external system.")
    if queue.system.enabled:
        return good("system", f"{queue.system.name} is switched on.")
    return broken(
        "system",
        f"{queue.system.name} is switched off, so its messages wait.",
        f"Switch the external system {queue.system.name} on.",
    )


def service(queue: Queue) -> Link:
    taker = queue.default_service
    if queue.is_error_queue:
        return good("service", "An error queue hands its records to people.")
    if taker is None:
        return good("service", "No default; every message names its service itself.")
    if not taker.enabled:
        text = f"The default service {taker.interface} is switched off."
        return broken("service", text, f"Switch the enterprise service {taker.interface} on.")
    if taker.structure is None and handlers.get(taker.interface) is None:
        return broken(
            "service",
            f"No handler for {taker.interface} is installed here, and it has no structure.",
            "Install the app that has the handler (SLUICE_INTEGRATIONS), or choose a structure.",
        )
    return good("service", f"{taker.interface} takes what names no service itself.")


def switches(queue: Queue) -> Link:
    if not queue.enabled:
        return broken("queue", "The queue is switched off.", "Switch the queue on.")
    if queue.paused:
        reason = f": {queue.pause_reason}" if queue.pause_reason else "."
        return broken("queue", f"The queue is paused{reason}", "Resume the queue.")
    return good("queue", "Switched on, not paused.")


def topic(queue: Queue) -> Link:
    try:
        facts = admin.topic_facts(queue.provider, queue.topic)
    except IntegrationError as e:
        return broken("topic", e.sentence, "Mend the provider first.")
    if facts is None:
        return broken(
            "topic",
            f"The topic {queue.topic} does not exist.",
            "Create it, or correct the queue's topic.",
        )
    if queue.is_sequential and facts.partitions > 1:
        return broken(
            "topic",
            f"{queue.topic} has {facts.partitions} partitions; a sequential queue needs one.",
            "Use a topic with one partition, or make the queue continuous.",
        )
    known = set(queue.partitions.values_list("topic_uuid", flat=True))
    if known - {facts.topic_uuid}:
        text = f"{queue.topic} was deleted and created again since the positions were taken."
        return broken("topic", text, "Open the queue and choose where the new topic is read from.")
    messages = sum(facts.high[p] - facts.low[p] for p in facts.low)
    held = f"{so_many(facts.partitions, 'partition')}, at most {so_many(messages, 'message')}."
    return good("topic", f"{held} {_topic_settings(queue)}")


def _topic_settings(queue: Queue) -> str:
    """What the broker says about the topic; reading it needs a right that consuming does not."""
    try:
        return admin.in_words(admin.describe(queue.provider, queue.topic))
    except IntegrationError as e:
        return f"Its settings cannot be read: {e.sentence}"


def instance(queue: Queue) -> Link:
    if queue.direction == Queue.Direction.OUTBOUND and not sends(queue):
        return relay_instance(queue)
    found = _instance_of(queue)
    if found is None:
        text = "The queue has no cron instance, so no schedule starts it."
        return broken("instance", text, "Save the queue again; that creates one.")
    return _scheduled(found, "instance")


def relay_instance(queue: Queue) -> Link:  # noqa: ARG001 - every link is asked in the same way
    """The schedule that starts the relay."""
    found = _relays().first()
    name = "instance"
    if found is None:
        text = "There is no cron instance of the relay, so no schedule starts it."
        return broken(name, text, "Run `python manage.py migrate`; that creates one.")
    return _scheduled(found, name)


def _scheduled(found: CronInstance, name: str) -> Link:
    if not found.active:
        return broken(name, f"{found.name} is not active.", "Switch the instance on.")
    if found.periodic_task is None or not found.periodic_task.enabled:
        text = f"Beat does not know {found.name}: its periodic task is missing or switched off."
        return broken(name, text, "Save the instance again; that mends it.")
    return good(name, f"{found.name}, {found.schedule_words}.")


def _relays() -> QuerySet[CronInstance]:
    instances = CronInstance.objects.select_related("periodic_task")
    return instances.filter(task="relay").order_by("-active", "pk")


def _instance_of(queue: Queue) -> CronInstance | None:
    """The schedule that starts what works for the queue: its consumer, or the relay."""
    if queue.direction == Queue.Direction.OUTBOUND and not sends(queue):
        return _relays().first()
    return CronInstance.objects.select_related("periodic_task").filter(queue=queue).first()


def beat(queue: Queue) -> Link:
    hearts = crew.alive("beat")
    if not hearts:
        text = f"No beat showed a heartbeat within {ALIVE.seconds} seconds."
        return broken("beat", text, "Start one: celery -A config beat")
    leader = next((heart for heart in hearts if heart.leads), None)
    if leader is None:
        text = f"{len(hearts)} beat(s) live, but none leads."
        return broken("beat", text, "Wait five seconds; if it stays so, restart beat.")
    overdue = _overdue(queue)
    if overdue is not None:
        return broken("beat", overdue, "Look at beat's log; restart it if it says nothing.")
    return good("beat", f"{leader.node} leads.")


def _overdue(queue: Queue) -> str | None:
    found = _instance_of(queue)
    if found is None or not found.active or found.last_scheduled_at is None:
        return None
    missed = upcoming(found.schedule(), found.last_scheduled_at, 1)
    if not missed or timezone.now() - missed[0] < _LATE:
        return None
    return f"{found.name} was due at {missed[0]:%H:%M:%S} UTC and nothing ticked."


def worker(queue: Queue) -> Link:  # noqa: ARG001 - every link is asked in the same way
    hearts = crew.alive("worker")
    serving = crew.serving(hearts, crew.RUNS)
    if not serving:
        text = f"No worker for queues showed a heartbeat within {ALIVE.seconds} seconds."
        return broken("worker", text, "Start one: celery -A config worker -Q celery")
    skewed = [heart for heart in serving if abs(heart.clock_skew_seconds) > _SKEW_SECONDS]
    if skewed:
        text = f"The clock of {skewed[0].node} is {skewed[0].clock_skew_seconds:+.1f} s off."
        return broken("worker", text, "Set the host's clock; Celery drops what seems expired.")
    if not any(heart.leads for heart in hearts):
        text = f"{len(serving)} worker(s) live, but no dispatcher leads."
        return broken("worker", text, "Wait five seconds; if it stays so, restart a worker.")
    return good("worker", f"{len(serving)} alive for queues. {crew.slots_in_words(serving)}")


def lock(queue: Queue) -> Link:
    with django_cursor() as cursor:
        cursor.execute(_OWNERS, (queue.pk,))
        rows = cursor.fetchall()
        cursor.execute(_REQUEST_AGE, (queue.pk,))
        (age,) = cursor.fetchone()
    for partition, owner, is_held, has_lapsed in rows:
        if is_held and has_lapsed:
            text = f"{owner} holds partition {partition} and has not renewed its lease."
            step = "It is stopped or hangs; the next run ends it. If it stays so, kill it."
            return broken("lock", text, step)
    owners = sorted({owner for _, owner, is_held, _ in rows if is_held and owner})
    if not owners and age is not None and age > _LATE.total_seconds():
        text = f"A run was asked for {age:.0f} seconds ago and no worker took it."
        return broken("lock", text, "Look at the workers' logs and at the broker of Celery.")
    return good("lock", f"Held by {', '.join(owners)}." if owners else "Free; a start takes it.")


def position(queue: Queue) -> Link:
    rows = list(queue.partitions.all())
    if not rows and queue.direction == Queue.Direction.OUTBOUND:
        text = "The queue has no position, so no run reads what the relay writes."
        return broken("position", text, "Save the queue again; that stores where reading begins.")
    if not rows:
        return good("position", "No run has taken the queue yet.")
    for row in rows:
        state = PartitionState(row.state)
        if state in (PartitionState.RUNNING, PartitionState.BACKOFF):
            continue
        found = situation(
            state,
            row.state_code,
            row.state_text,
            topic=queue.topic,
            limit=queue.max_open_errors,
        )
        text = f"Partition {row.partition} stands still. {found.why}"
        return broken("position", text, found.next_step or "Open the queue in the console.")
    waiting = [row for row in rows if row.state == PartitionState.BACKOFF]
    if waiting:
        text = f"Partition {waiting[0].partition} waits for its next try at {waiting[0].resume_at}."
        return good("position", text)
    places = ", ".join(f"{row.partition} at {row.next_offset:,}" for row in rows[:8])
    return good("position", f"Partition {places}.")


INBOUND_WALK: Final[tuple[Callable[[Queue], Link], ...]] = (
    provider,
    system,
    service,
    switches,
    topic,
    instance,
    beat,
    worker,
    lock,
    position,
)
SENDING_WALK: Final[tuple[Callable[[Queue], Link], ...]] = (
    provider,
    system,
    flow_sending.channel,
    flow_out.relay,
    flow_out.lease,
    flow_out.outbox,
    topic,
    switches,
    instance,
    beat,
    worker,
    lock,
    flow_sending.endpoint,
    position,
    flow_sending.unknown,
    flow_sending.delivered,
)
OUTBOUND_WALK: Final[tuple[Callable[[Queue], Link], ...]] = (
    provider,
    flow_out.switches,
    topic,
    instance,
    beat,
    flow_out.relay,
    flow_out.lease,
    flow_out.outbox,
)
