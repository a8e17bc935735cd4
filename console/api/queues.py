"""Queues over HTTP: how they stand, and every decision about one."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest
from ninja import Query, Router

from console.api.errors import BadInputError
from console.api.paging import filter_in, page_by_name
from console.api.queue_answers import (
    AdoptTopic,
    Asked,
    Effects,
    Line,
    MovePositions,
    PartitionLine,
    PauseQueue,
    PositionPlan,
    QueueDetail,
    QueueFilters,
    QueueLine,
    QueuePage,
    QueueSetUp,
    StopQueue,
    facts_of,
)
from console.api.routes import Decision, acting, operation, reading
from console.layout.access import Right, scope_of
from console.layout.answers import actor_of
from console.queues.filters import QueueFilterForm
from crontasks.health.live_processes import live_processes
from integration.actions import blocks, positions, queue_stops
from integration.actions import queues as actions
from integration.actions.configuration import facts
from integration.actions.queues import refuse_jms
from integration.models import Queue
from integration.selectors.queues import queues, rates, seeking
from integration.selectors.queues.seeking import To, Wanted
from integration.selectors.setup import foreign
from integration.selectors.setup.queues import queue_named, topic_facts_now

router: Final = Router(tags=["queues"])
ONE: Final = "/queues/{slug:name}"


@reading(router, "/queues", answer=QueuePage)
def list_queues(request: HttpRequest, filters: Query[QueueFilters]) -> QueuePage:
    """Every queue, by name, 100 a page."""
    scope = scope_of(request.user)
    rows = queues.standing(live_processes(), scope)
    form = QueueFilterForm(filter_in(request.GET, "after"), [])
    form.refuse_misread()
    passed = form.passed(rows, rates.last_minute(scope))
    shown, behind = page_by_name(passed, filters.after)
    return QueuePage(queues=[QueueLine.of(row) for row in queues.counted(shown)], next=behind)


@reading(router, ONE, answer=QueueDetail)
def read_queue(request: HttpRequest, name: str) -> QueueDetail:
    """One queue and how each of its partitions stands."""
    return _shown(request, name)


@reading(router, f"{ONE}/set-up", answer=QueueSetUp)
def read_set_up(request: HttpRequest, name: str) -> QueueSetUp:
    """What people set up of a queue. The configuration file changes it."""
    queue = _wanted(request, name)
    values = facts(queue) | foreign.names_in(queue, scope_of(request.user))
    return QueueSetUp(queue=name, values=values)


@acting(router, "POST", f"{ONE}/pauses", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def pause_queue(request: HttpRequest, name: str, asked: PauseQueue) -> QueueDetail:
    """Let the current batch finish and start nothing more."""
    return _decided(request, name, partial(actions.pause, until=asked.until), asked)


@acting(router, "POST", f"{ONE}/resumptions", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def resume_queue(request: HttpRequest, name: str, asked: Decision) -> QueueDetail:
    """Take the pause away, and the stop at the failure threshold."""
    return _decided(request, name, actions.resume, asked)


@acting(router, "POST", f"{ONE}/enablings", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def enable_queue(request: HttpRequest, name: str, asked: Decision) -> QueueDetail:
    """Switch it on."""
    return _decided(request, name, actions.enable, asked)


@acting(router, "POST", f"{ONE}/disablings", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def disable_queue(request: HttpRequest, name: str, asked: Decision) -> QueueDetail:
    """Switch it off. Positions are kept."""
    return _decided(request, name, actions.disable, asked)


@acting(router, "POST", f"{ONE}/stops", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def stop_queue(request: HttpRequest, name: str, asked: StopQueue) -> QueueDetail:
    """Work up to a place, then pause there."""

    def told(queue_id: int, **how: Any) -> None:
        if asked.offset is None:
            facts = topic_facts_now(queue_id)
            queue_stops.drain(queue_id, facts=facts, partition=asked.partition, **how)
        else:
            queue_stops.stop_at(queue_id, asked.offset, partition=asked.partition, **how)

    return _decided(request, name, told, asked)


@acting(router, "POST", f"{ONE}/stops/cancellations", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def cancel_stop(request: HttpRequest, name: str, asked: Decision) -> QueueDetail:
    """Let it go on beyond every stop."""
    return _decided(request, name, queue_stops.cancel, asked)


@acting(router, "POST", f"{ONE}/adoptions", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def adopt_topic(request: HttpRequest, name: str, asked: AdoptTopic) -> QueueDetail:
    """Go on in a topic that was made anew, from its start or its end; or stay blocked."""

    def adopt(queue_id: int, **how: Any) -> None:
        if asked.place is None:
            blocks.stay_blocked(queue_id, **how)
        else:
            facts = topic_facts_now(queue_id)
            blocks.adopt(queue_id, place=asked.place, facts=facts, **how)

    return _decided(request, name, adopt, asked)


@acting(router, "POST", f"{ONE}/beginnings", Right.VIEW, Right.OPERATE, answer=QueueDetail)
def begin_sooner(request: HttpRequest, name: str, asked: Decision) -> QueueDetail:
    """Say that all producers know the partitions that were added, so that they begin sooner."""
    return _decided(request, name, blocks.begin_sooner, asked)


@acting(
    router,
    "POST",
    f"{ONE}/gaps/{{uuid:gap_id}}/acknowledgements",
    *(Right.VIEW, Right.OPERATE),
    answer=QueueDetail,
)
def acknowledge_gap(request: HttpRequest, name: str, gap_id: UUID, asked: Decision) -> QueueDetail:
    """Take note of messages that are lost, so that the queue goes on."""

    def acknowledge(queue_id: int, **how: Any) -> None:
        blocks.acknowledge_gap(gap_id, queue_id=queue_id, **how)

    return _decided(request, name, acknowledge, asked)


@operation(router, "GET", f"{ONE}/positions", Right.VIEW, Right.OPERATE, answer=PositionPlan)
def plan_positions(request: HttpRequest, name: str, asked: Query[Asked]) -> PositionPlan:
    """What moving the position would do: to the beginning, the end, an offset, a time, or on."""
    queue = _wanted(request, name)
    refuse_jms(queue.pk)
    needed = {To.OFFSET: "offset", To.TIME: "at", To.SKIP: "count"}.get(asked.to)
    if needed is not None and getattr(asked, needed) is None:
        raise BadInputError(f"To move to “{asked.to}”, say “{needed}”.")
    plan = seeking.plan(
        queue,
        Wanted(
            to=asked.to,
            partition=asked.partition,
            offset=asked.offset or 0,
            at=asked.at,
            count=asked.count or 0,
        ),
    )
    lines = [Line.model_validate(line, from_attributes=True) for line in plan.lines]
    return PositionPlan(lines=lines, again=plan.again, skipped=plan.skipped)


@acting(router, "POST", f"{ONE}/positions", Right.VIEW, Right.OPERATE, answer=Effects)
def move_positions(request: HttpRequest, name: str, asked: MovePositions) -> Effects:
    """Move positions of a queue that is paused or switched off; needs a reason."""
    queue = _wanted(request, name)
    refuse_jms(queue.pk)
    how = positions.Request(
        actor=actor_of(request), reason=asked.reason, send_again=asked.send_again
    )
    moves = [positions.Move(**one.model_dump()) for one in asked.moves]
    facts = seeking.facts_of(queue)
    return Effects(effects=positions.seek(queue.pk, moves, facts=facts, request=how))


def _decided(
    request: HttpRequest, name: str, verb: Callable[..., object], why: Decision
) -> QueueDetail:
    queue = _wanted(request, name)
    verb(queue.pk, actor=actor_of(request), reason=why.reason)
    return _shown(request, name)


def _wanted(request: HttpRequest, name: str) -> Queue:
    """The queue, if this person may know of it. Raises Http404."""
    queue = queue_named(name, scope_of(request.user))
    if queue is None:
        raise Http404(f"There is no queue {name}.")
    return queue


def _shown(request: HttpRequest, name: str) -> QueueDetail:
    found = queues.detail(name, live_processes(), scope_of(request.user))
    if found is None:
        raise Http404(f"There is no queue {name}.")
    partitions = [PartitionLine.of(row) for row in found.row.partitions]
    return QueueDetail(**facts_of(found.row), partitions=partitions)
