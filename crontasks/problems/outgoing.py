"""What is wrong on the way out: endpoints down, deliveries nobody knows of, a late relay. Pure."""

from collections.abc import Iterator
from typing import Final

from crontasks.problems.facts import Facts, Problem, Way, counted, is_wanted, named
from integration.durations import rough
from integration.selectors.delivering.endpoints import EndpointRow
from integration.selectors.delivering.standing import Standing

DOWN: Final = frozenset({Standing.DOWN, Standing.PROBING})


def endpoints(facts: Facts) -> Iterator[Problem]:
    """One for each endpoint that takes nothing, however many queues wait for it.

    A pause is a plan with an end, so nobody is told of it here.
    """
    wanted = {row.name for row in facts.rows if row.sends and is_wanted(row)}
    for row in facts.endpoints:
        queues = [name for name in row.queues if name in wanted]
        if row.standing in DOWN:
            yield _problem(row, 12, f"{row.name} is down", row.situation.why)
        elif row.standing is Standing.OFF and queues and row.waiting:
            waits = "waits" if len(queues) == 1 else "wait"
            why = f"{row.situation.why} {named(queues)} {waits} for it."
            yield _problem(row, 44, f"The endpoint {row.name} is switched off", why)


def unknown(facts: Facts) -> Iterator[Problem]:
    for row in facts.rows:
        count = facts.unknown.get(row.id, 0)
        if not count:
            continue
        them = "it is" if count == 1 else "they are"
        yield Problem(
            rank=22,
            what=f"{counted(count, 'message', 'messages')} of {row.name} may have arrived",
            why=f"The call broke off, so nobody knows whether {them} on the other side.",
            next_step="Open the queue: look there for the message id, then say which it is.",
            way=Way.QUEUE,
            subject=row.name,
        )


def late_relays(facts: Facts) -> Iterator[Problem]:
    """A relay that is not there is told by itself."""
    if not facts.live_processes.relays:
        return
    for late in facts.late:
        yield Problem(
            rank=13,
            what=f"The outbox of {late.provider} is not sent",
            why=f"Its oldest message has been due for {rough(late.seconds)}, though a worker for "
            "the relay lives.",
            next_step="Check the flow of an outbound queue: it names the broken link.",
            way=Way.OUTBOX_WAITING,
            subject=late.provider,
        )


def _problem(row: EndpointRow, rank: int, what: str, why: str) -> Problem:
    return Problem(
        rank=rank,
        what=what,
        why=why,
        next_step=row.situation.next_step,
        way=Way.ENDPOINT,
        subject=row.name,
        is_grave=rank < 40,
    )
