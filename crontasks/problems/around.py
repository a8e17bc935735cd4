"""What is wrong around the queues: processes, clusters, partners, services, schedules. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from crontasks.problems.facts import (
    Facts,
    Problem,
    Way,
    counted,
    has_kafka_code,
    is_wanted,
    named,
)
from integration.durations import rough, written
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import NO_BEAT, NO_BROKER, NO_DRIVER, Status


def live_processes(facts: Facts) -> Iterator[Problem]:
    lacks = {
        facts.live_processes.no_worker: "No worker takes tasks"
        if facts.live_processes.idle_workers
        else "Worker down",
        NO_BEAT: "Beat down",
        facts.live_processes.no_relay: "The relay takes no tasks"
        if facts.live_processes.idle_relays
        else "Relay down",
    }
    for rank, (lack, what) in enumerate(lacks.items()):
        if lack in facts.live_processes.missing:
            yield Problem(
                rank=rank, what=what, why=lack.why, next_step=lack.next_step, way=Way.TERMINAL
            )


def broker(facts: Facts) -> Iterator[Problem]:
    """Named before the workers and beat, which seem idle because of it."""
    if facts.broker_is_away:
        yield Problem(
            rank=-1,
            what="The Celery broker is down",
            why=NO_BROKER.why,
            next_step=NO_BROKER.next_step,
            way=Way.TERMINAL,
        )


def spark(facts: Facts) -> Iterator[Problem]:
    """Bulk runs alone need a driver."""
    if facts.bulk_waiting and not facts.live_processes.drivers:
        waits = counted(facts.bulk_waiting, "bulk run waits", "bulk runs wait")
        yield Problem(
            rank=45,
            what="No Spark driver answers",
            why=f"{waits} for one; messages flow without it.",
            next_step=NO_DRIVER.next_step,
            way=Way.TERMINAL,
            is_grave=False,
        )


def providers(facts: Facts) -> Iterator[Problem]:
    """One for each cluster that does not serve us, however many queues wait for it."""
    waiting: dict[str, list[QueueRow]] = defaultdict(list)
    for row in facts.rows:
        if is_wanted(row) and row.found[0] is Status.OUTAGE and has_kafka_code(row):
            waiting[row.provider].append(row)
    ours = {row.provider: row.provider_id for row in facts.rows if is_wanted(row)}
    for name in sorted(waiting.keys() | (facts.away.keys() & ours.keys())):
        yield _provider((name, ours[name]), waiting[name], facts.away.get(name, ""))


def _provider(who: tuple[str, int], waiting: list[QueueRow], said: str) -> Problem:
    name, number = who
    told = said.partition(": ")[2] if said else _cause(waiting[0])
    stands = counted(len(waiting), "queue waits", "queues wait")
    effect = f"{stands} and no retry is spent." if waiting else "No queue has met it yet."
    if _is_told("PROTOCOL", waiting, said):
        return Problem(
            rank=10,
            what=f"{name} is set to another protocol than its port speaks",
            why=f"{told} {effect}",
            next_step=f"Correct the security protocol or the bootstrap servers of the provider "
            f"{name}; the queues go on by themselves.",
            way=Way.PROVIDER,
            subject=name,
            number=number,
        )
    if _is_told("REFUSED", waiting, said):
        return Problem(
            rank=10,
            what=f"{name} refuses us",
            why=f"The cluster answers, but refuses our user, certificate or rights. {effect} "
            f"It said: {told}",
            next_step=f"Correct the access of the provider {name}, or its rights on the cluster; "
            "the queues go on by themselves.",
            way=Way.PROVIDER,
            subject=name,
            number=number,
        )
    return Problem(
        rank=11,
        what=f"{name} does not answer",
        why=f"No broker of the cluster answers. {effect} It said: {told}",
        next_step="Bring Kafka back, or correct the provider's servers; the queues go on by "
        "themselves.",
        way=Way.PROVIDER,
        subject=name,
        number=number,
    )


def _is_told(kind: str, waiting: list[QueueRow], said: str) -> bool:
    return said.startswith(f"BROKER_{kind}:") or any(f"KAFKA_{kind}" in r.codes for r in waiting)


def _cause(row: QueueRow) -> str:
    """What the client said: the engine's words without the sentence around them."""
    return next((part.said for part in row.partitions if part.code.startswith("KAFKA_")), "")


def services(facts: Facts) -> Iterator[Problem]:
    for taker in facts.services_off:
        names = named(taker.queues)
        waits = "the queue waits" if len(taker.queues) == 1 else "the queues wait"
        if not taker.sequential:
            waits = "its messages go on hold"
        yield Problem(
            rank=40,
            what=f"The service {taker.interface} is switched off",
            why=f"It takes the messages of {names}, so {waits}.",
            next_step="Switch the service on again; what waits goes on by itself.",
            way=Way.SERVICE,
            subject=taker.interface,
            number=taker.number,
        )


def systems(facts: Facts) -> Iterator[Problem]:
    off: dict[str, list[QueueRow]] = defaultdict(list)
    for row in facts.rows:
        if row.is_system_off and is_wanted(row) and row.direction == "inbound":
            off[row.system].append(row)
    for name, rows in off.items():
        waits = any(row.kind == "sequential" for row in rows)
        effect = "what it sends waits" if waits else "what it sends goes on hold"
        yield Problem(
            rank=41,
            what=f"The external system {name} is switched off",
            why=f"{named([row.name for row in rows])} belongs to it, so {effect}."
            if len(rows) == 1
            else f"{named([row.name for row in rows])} belong to it, so {effect}.",
            next_step="Switch the system on again; what waits goes on by itself.",
            way=Way.SYSTEM,
            subject=name,
            number=rows[0].system_id,
            is_grave=False,
        )


def schedules(facts: Facts) -> Iterator[Problem]:
    for idle in facts.idle:
        has = f"its cron instance {idle.name} is not active" if idle.instance else "it has none"
        yield Problem(
            rank=42,
            what=f"No schedule starts {idle.queue}",
            why=f"A queue is started by its cron instance, and {has}.",
            next_step="Switch the instance on."
            if idle.instance
            else "Save the queue again; that creates one.",
            way=Way.INSTANCE if idle.instance else Way.CONFIGURE_QUEUE,
            subject=idle.name or idle.queue,
            number=idle.instance,
        )


def retention(facts: Facts) -> Iterator[Problem]:
    for short in facts.short:
        kept = rough(short.kept_seconds)
        yield Problem(
            rank=43,
            what=f"{short.topic} forgets too soon for {short.queue}",
            why=f"The topic keeps its messages for {kept}, and the retries of one message take "
            f"{written(short.retries_seconds)}: what waits behind a failing one expires untried.",
            next_step=f"Lengthen retention.ms of {short.topic}, or shorten the retry policy.",
            way=Way.CONFIGURE_QUEUE,
            subject=short.queue,
        )
