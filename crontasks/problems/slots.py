"""What is wrong with the slots of the workers: calls that hang, and queues that wait. Pure."""

from collections.abc import Iterator

from crontasks.health import slot_words
from crontasks.health.slots import Run, Stage
from crontasks.problems.facts import Facts, Problem, Way


def all_taken(facts: Facts) -> Iterator[Problem]:
    """Once for all queues that wait, told to whoever may know of one of them."""
    found = facts.slots
    if found is None:
        return
    systems = {row.system_id for row in facts.rows}
    if any(wait.system_id in systems for wait in found.lacking):
        told = slot_words.of_all(found, systems.__contains__)
        yield Problem(
            rank=14,
            what="All worker slots are taken",
            why=told.why,
            next_step=told.next_step,
            way=Way.TERMINAL,
        )


def hanging(facts: Facts) -> Iterator[Problem]:
    """One for each queue whose call hangs or hung, until its message is through."""
    if facts.slots is None:
        return
    names = {row.id: row.name for row in facts.rows}
    worst: dict[int, Run] = {}
    for run in facts.slots.runs:
        is_told = run.queue_id in names and run.stage is not Stage.WORKS
        if is_told and (run.queue_id not in worst or run.stage is Stage.HANGS):
            worst[run.queue_id] = run
    for run in worst.values():
        told = slot_words.of_run(run, facts.slots.now)
        hangs = run.stage is Stage.HANGS
        yield Problem(
            rank=16 if hangs else 46,
            what=f"A call of {run.queue} {'hangs' if hangs else 'hung'}",
            why=told.why,
            next_step=told.next_step,
            way=Way.QUEUE,
            subject=run.queue,
            is_grave=hangs,
        )
