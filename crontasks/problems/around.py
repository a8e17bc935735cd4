"""Problems around the queues: processes, slots, clusters, partners, schedules. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from crontasks.health import slot_words
from crontasks.models.notice import NoticeKind
from crontasks.problems.facts import Facts, Problem, Way, counted, is_of_provider, is_wanted
from integration.counting import listed
from integration.durations import rough, written
from integration.selectors.delivering.standing import Standing, shared_ledger
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import (
    NO_BEAT,
    NO_BROKER,
    NO_DRIVER,
    NO_RELAY,
    NO_WORKER,
    Situation,
    Status,
)

# More names than this say no more.
NAMED: Final = 3
# What stands between a cluster that answers and us: in codes, in a title, and what to do.
_REFUSALS: Final = (
    (
        "PROTOCOL",
        "{} is set to another protocol than its port speaks",
        "Correct the security protocol or the bootstrap servers of the provider {}",
    ),
    (
        "CERTIFICATE",
        "{} and we do not accept each other's certificates",
        "Correct the certificates of the provider {}, or have those of its brokers renewed",
    ),
    (
        "RIGHTS",
        "{} refuses us a right",
        "Test the connection of the provider {}, which names each missing right, and grant it",
    ),
)


def live_processes(facts: Facts) -> Iterator[Problem]:
    alive = facts.live_processes
    lacks = {
        alive.no_worker: "Worker down" if alive.no_worker is NO_WORKER else "No worker takes tasks",
        NO_BEAT: "Beat down",
        alive.no_relay: "Relay down" if alive.no_relay is NO_RELAY else "The relay takes no tasks",
    }
    for rank, (lack, what) in enumerate(lacks.items()):
        if lack in alive.missing:
            yield Problem(what, lack, Way.TERMINAL, rank=rank)


def broker(facts: Facts) -> Iterator[Problem]:
    """Named before the workers and beat, which seem idle because of it."""
    if facts.broker_is_away:
        yield Problem("The Celery broker is down", NO_BROKER, Way.TERMINAL, rank=-1)


def spark(facts: Facts) -> Iterator[Problem]:
    """Bulk runs alone need a driver."""
    if facts.bulk_waiting and not facts.live_processes.drivers:
        waits = counted(facts.bulk_waiting, "bulk run waits", "bulk runs wait")
        lack = Situation(f"{waits} for one; messages flow without it.", NO_DRIVER.next_step)
        yield Problem("No Spark driver answers", lack, Way.TERMINAL, rank=45, is_grave=False)


def slots(facts: Facts) -> Iterator[Problem]:
    """Yield one problem for all queues that wait, to whoever may know of one of them."""
    usage = facts.slots
    if usage is None:
        return
    systems = {row.system_id for row in facts.rows}
    if any(wait.system_id in systems for wait in usage.lacking):
        lack = slot_words.of_all(usage, systems.__contains__)
        yield Problem("All worker slots are taken", lack, Way.TERMINAL, rank=14)


def providers(facts: Facts) -> Iterator[Problem]:
    """Yield one for each cluster that does not serve us, however many queues wait for it."""
    waiting: dict[str, list[QueueRow]] = defaultdict(list)
    for row in facts.rows:
        is_out = is_wanted(row) and row.standing[0] is Status.OUTAGE
        if is_out and any(map(is_of_provider, row.codes)):
            waiting[row.provider].append(row)
    ours = {row.provider: row.provider_id for row in facts.rows if is_wanted(row)}
    for name in sorted(waiting.keys() | (facts.away.keys() & ours.keys())):
        rank, what, situation = _provider(name, waiting[name], facts.away.get(name, ""))
        yield Problem(what, situation, Way.PROVIDER, rank=rank, subject=name, number=ours[name])


def _provider(name: str, waiting: list[QueueRow], noticed: str) -> tuple[int, str, Situation]:
    reason = noticed.partition(": ")[2] if noticed else _cause(waiting[0])
    stands = counted(len(waiting), "queue waits", "queues wait")
    effect = f"{stands} and no retry is spent." if waiting else "No queue has met it yet."
    for end, title, how in _REFUSALS:
        if _has_code(end, waiting, noticed):
            step = f"{how.format(name)}; the queues continue by themselves."
            return 10, title.format(name), Situation(f"{reason} {effect}", step)
    if _has_code("REFUSED", waiting, noticed):
        why = "The broker answers, but refuses our login."
        step = (
            f"Correct user and password of the provider {name}; the queues continue by themselves."
        )
        return 10, f"{name} refuses us", Situation(f"{why} {effect} It said: {reason}", step)
    why = f"No broker of the provider answers. {effect} It said: {reason}"
    step = (
        "Bring the brokers back, or correct the provider's servers; the queues continue by "
        "themselves."
    )
    return 11, f"{name} does not answer", Situation(why, step)


def _has_code(end: str, waiting: list[QueueRow], noticed: str) -> bool:
    code = noticed.partition(":")[0]
    return end in code or any({f"KAFKA_{end}", f"JMS_{end}"} & r.codes for r in waiting)


def _cause(row: QueueRow) -> str:
    """Return the client's words: the engine's without the sentence around them."""
    return next((part.state_text for part in row.partitions if is_of_provider(part.code)), "")


def services(facts: Facts) -> Iterator[Problem]:
    for taker in facts.services_off:
        waits = "the queue waits" if len(taker.queues) == 1 else "the queues wait"
        if not taker.sequential:
            waits = "its messages go on hold"
        yield Problem(
            f"The service {taker.interface} is switched off",
            Situation(
                f"It takes the messages of {listed(taker.queues, NAMED)}, so {waits}.",
                "Switch the service on again; waiting messages continue by themselves.",
            ),
            Way.SERVICE,
            rank=40,
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
        belong = "belongs" if len(rows) == 1 else "belong"
        yield Problem(
            f"The external system {name} is switched off",
            Situation(
                f"{listed([row.name for row in rows], NAMED)} {belong} to it, so {effect}.",
                "Switch the system on again; waiting messages continue by themselves.",
            ),
            Way.SYSTEM,
            rank=41,
            subject=name,
            number=rows[0].system_id,
            is_grave=False,
        )


def schedules(facts: Facts) -> Iterator[Problem]:
    for idle in facts.idle:
        has = "it has none"
        way, step = Way.CONFIGURE_QUEUE, "Save the queue again; that creates one."
        if idle.instance:
            has = f"its cron instance {idle.name} is not active"
            way, step = Way.INSTANCE, "Activate the instance."
        yield Problem(
            f"No schedule starts {idle.queue}",
            Situation(f"A queue is started by its cron instance, and {has}.", step),
            way,
            rank=42,
            subject=idle.name or idle.queue,
            number=idle.instance,
        )


def retention(facts: Facts) -> Iterator[Problem]:
    for short in facts.short:
        takes = written(short.retries_seconds)
        yield Problem(
            f"{short.topic} forgets too soon for {short.queue}",
            Situation(
                f"The topic keeps its messages for {rough(short.kept_seconds)}, and the retries of "
                f"one message take {takes}: what waits behind a failing one expires untried.",
                f"Lengthen retention.ms of {short.topic}, or shorten the retry policy.",
            ),
            Way.CONFIGURE_QUEUE,
            rank=43,
            subject=short.queue,
        )


def endpoints(facts: Facts) -> Iterator[Problem]:
    """Yield one for each endpoint that takes nothing, however many queues wait for it.

    A pause is a plan with an end, so it is no problem.
    """
    senders = {row.name for row in facts.rows if row.sends and is_wanted(row)}
    for row in facts.endpoints:
        queues = [name for name in row.queues if name in senders]
        if row.standing in {Standing.DOWN, Standing.PROBING}:
            what = f"{row.name} is down"
            yield Problem(what, row.situation, Way.ENDPOINT, rank=12, subject=row.name)
        elif row.standing is Standing.OFF and queues and row.waiting:
            waits = "waits" if len(queues) == 1 else "wait"
            why = f"{row.situation.why} {listed(queues, NAMED)} {waits} for it."
            lack = Situation(why, row.situation.next_step)
            what = f"The endpoint {row.name} is switched off"
            yield Problem(what, lack, Way.ENDPOINT, rank=44, subject=row.name, is_grave=False)


def shared_ledgers(facts: Facts) -> Iterator[Problem]:
    """Yield one for each endpoint that takes messages of others for repeats, while it is used."""
    senders = {row.name for row in facts.rows if row.sends and is_wanted(row)}
    for row in facts.endpoints:
        if row.shares_ledger and senders.intersection(row.queues):
            what = f"The endpoint {row.name} shares its ledger"
            lack = shared_ledger(row.shares_ledger)
            yield Problem(what, lack, Way.ENDPOINT, rank=44, subject=row.name, is_grave=False)


def commits_in_doubt(facts: Facts) -> Iterator[Problem]:
    """Two-phase commits that Kafka does not tell the fate of, of queues that may be seen."""
    visible = {row.name for row in facts.rows}
    for doubt in facts.commits_in_doubt:
        if doubt.queue not in visible:
            continue
        what = f"A commit of {doubt.queue}, partition {doubt.partition}, is in doubt"
        yield Problem(what, doubt.situation, Way.OUTBOX, rank=11, subject=doubt.queue)


def held_by_others(facts: Facts) -> Iterator[Problem]:
    """Partitions that a prepared transaction of somebody else holds."""
    visible = {row.name for row in facts.rows}
    for held in facts.held_by_others:
        if held.queue in visible:
            what = f"{held.queue}, partition {held.partition}, is held by somebody else"
            yield Problem(what, held.situation, Way.TERMINAL, rank=11, subject=held.queue)


def branches(facts: Facts) -> Iterator[Problem]:
    """Connections whose transactions over several resources wait for a person."""
    for one in facts.branches:
        lack = Situation(one.text, "Open the connection; its page shows the branches.")
        what = f"Transactions of the connection {one.factory} wait"
        yield Problem(what, lack, Way.CONNECTION, rank=14, subject=one.factory, number=one.number)


def cron_runs(facts: Facts) -> Iterator[Problem]:
    """Schedules whose last run ended badly, or that nobody began; of queues that may be seen.

    What belongs to no queue works for all of them.
    """
    visible = {row.name for row in facts.rows}
    for one in facts.schedules:
        if one.queue and one.queue not in visible:
            continue
        what = f"{one.name} is late" if one.kind == NoticeKind.CRON_LATE else f"{one.name} failed"
        step = "Open its page and find out why. “Run now” there tries again."
        yield Problem(
            what,
            Situation(one.text, step),
            Way.INSTANCE,
            rank=42,
            subject=one.name,
            number=one.number,
            is_grave=False,
        )


def late_relays(facts: Facts) -> Iterator[Problem]:
    """A relay that is not there is a problem of its own."""
    if not facts.live_processes.relays:
        return
    for late in facts.late:
        met = "although a relay worker is running."
        if late.trouble:
            met = f"as Kafka does not take it. {late.trouble.partition(': ')[2].rstrip('.')}."
        lack = Situation(
            f"Its oldest message has been due for {rough(late.seconds)}, {met}",
            "Check the flow of an outbound queue: it names the broken link.",
        )
        what = f"The outbox of {late.provider} is not sent"
        yield Problem(what, lack, Way.OUTBOX_WAITING, rank=13, subject=late.provider)
