"""Collects the facts that problems are found from: a bounded number of statements."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import F, FloatField, Q, QuerySet
from django.db.models.functions import Cast, Greatest
from django.utils import timezone

from crontasks.health import slots
from crontasks.health.live_processes import open_runs
from crontasks.health.readiness import UNSENT_SECONDS
from crontasks.models import CronInstance, CronRun, Notice
from crontasks.models.notice import ASKED_FOR, CONNECTION, PROVIDER, NoticeKind
from crontasks.models.notice_kinds import OF_SCHEDULES
from crontasks.problems.facts import Branches, Facts, Idle, Late, Schedule, Short, Taker
from integration.models import ConnectionFactory, EnterpriseService, Queue
from integration.selectors.delivering import endpoints, open_calls
from integration.selectors.outbox.branches import commits_in_doubt, held_by_others
from integration.selectors.outbox.relaying import relays
from integration.selectors.queues.heads import Head
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import LiveProcesses, Status
from integration.selectors.queues.unhandled import unhandled
from integration.selectors.setup.retry_line import retry_line
from integration.store.sessions import fetch_all
from integration.store.starts import IS_READ

_IDLE: Final = f"""
    SELECT q.name, i.id, coalesce(i.name, '')
    FROM integration_queue q
    LEFT JOIN LATERAL (
        SELECT i.id, i.name, i.active AND t.id IS NOT NULL AND (t.enabled OR %s) AS works
        FROM crontasks_croninstance i
        LEFT JOIN django_celery_beat_periodictask t ON t.id = i.periodic_task_id
        WHERE i.queue_id = q.id ORDER BY works DESC LIMIT 1) i ON true
    WHERE q.id = ANY(%s) AND q.enabled AND NOT q.paused
      AND {IS_READ}
      AND NOT coalesce(i.works, false)
    ORDER BY q.name LIMIT 100"""
# Policies are followed try by try: only those that could take so long are looked at.
MOST_POLICIES: Final = 50


def ask(
    rows: Sequence[QueueRow],
    live_processes: LiveProcesses,
    heads: Mapping[UUID, Head],
    *,
    is_whole: bool = True,
) -> Facts:
    """The facts about these queues as they were just read, in a bounded number of statements.

    Schedules that belong to no queue are for whoever sees the whole installation.
    """
    ids = [row.id for row in rows]
    sending = [row for row in rows if row.sends]
    outbound = any(not row.is_read or row.sends for row in rows)
    noticed = _noticed()
    return Facts(
        now=timezone.now(),
        live_processes=live_processes,
        rows=rows,
        heads=heads,
        away=noticed.providers,
        broker_is_away=noticed.broker and bool(live_processes.workers or live_processes.beats),
        services_off=_services_off(ids),
        unhandled=unhandled(rows),
        hindered=_hindered(rows),
        idle=_idle(ids),
        short=_short(ids),
        endpoints=endpoints.of_queues([row.id for row in sending]) if sending else (),
        unknown=_unknown(sending) if sending else {},
        slots=slots.look() if live_processes.workers else None,
        commits_in_doubt=commits_in_doubt(),
        held_by_others=held_by_others(),
        branches=_branches(noticed.connections),
        schedules=[s for s in _schedules(noticed.schedules) if is_whole or s.queue],
        late=_late({row.provider for row in rows}) if outbound else (),
        bulk_waiting=0 if live_processes.drivers else open_runs().waiting,
    )


def _hindered(rows: Sequence[QueueRow]) -> dict[int, str]:
    """Of queues that have not begun, the last word of their consumer, if it had any."""
    ids = [row.id for row in rows if row.standing[0] is Status.NOT_STARTED]
    if not ids:
        return {}
    runs = CronRun.objects.filter(instance__queue__in=ids).exclude(text="")
    latest = runs.order_by("instance_id", "-started_at").distinct("instance_id")
    return dict(latest.values_list("instance__queue", "text"))


def _unknown(rows: Sequence[QueueRow]) -> dict[int, int]:
    calls = open_calls.counts()
    return {row.id: calls.of_queue(row.id).unknown for row in rows}


def _late(providers: set[str]) -> list[Late]:
    """Relays that are behind; one that is in doubt or not there is a problem of its own."""
    return [
        Late(relay.provider, relay.oldest_due_seconds, relay.trouble)
        for relay in relays()
        if relay.provider in providers
        and relay.in_doubt_seconds is None
        and relay.oldest_due_seconds is not None
        and relay.oldest_due_seconds > UNSENT_SECONDS
    ]


def providers_away() -> dict[str, str]:
    """Map each provider that does not serve us to what was last noticed: code and sentence."""
    return _noticed().providers


def connections_waiting() -> dict[str, str]:
    """Map each connection whose branches wait for a person to what was last noticed."""
    return _noticed().connections


class _Noticed(NamedTuple):
    """Providers that are away and connections that wait, by name; whether Celery's broker is.

    `schedules` are cron instances that failed or are late, by name: which of both, and why.
    """

    providers: dict[str, str]
    connections: dict[str, str]
    broker: bool
    schedules: dict[str, tuple[str, str]]


def _noticed() -> _Noticed:
    about = ASKED_FOR | Q(kind__in=[NoticeKind.NO_BROKER, *OF_SCHEDULES])
    notices = Notice.objects.filter(about, closed_at__isnull=True).order_by("opened_at")
    rows = list(notices.values_list("kind", "subject", "text"))

    def called(what: str) -> dict[str, str]:
        return {s.removeprefix(what): text for _, s, text in rows if s.startswith(what)}

    is_away = any(kind == NoticeKind.NO_BROKER for kind, _, _ in rows)
    schedules = {s: (kind, text) for kind, s, text in rows if kind in OF_SCHEDULES}
    return _Noticed(called(PROVIDER), called(CONNECTION), is_away, schedules)


def _schedules(told: Mapping[str, tuple[str, str]]) -> list[Schedule]:
    if not told:
        return []
    rows = CronInstance.objects.filter(name__in=told, active=True).select_related("queue")
    return [
        Schedule(row.name, row.pk, row.queue.name if row.queue else "", *told[row.name])
        for row in rows.order_by("name")
    ]


def _branches(told: Mapping[str, str]) -> list[Branches]:
    if not told:
        return []
    rows = ConnectionFactory.objects.filter(name__in=told).order_by("name")
    return [Branches(row.name, row.pk, told[row.name]) for row in rows]


def _services_off(ids: list[int]) -> list[Taker]:
    rows = (
        EnterpriseService.objects.filter(
            enabled=False,
            default_of__in=ids,
            default_of__enabled=True,
            default_of__paused=False,
            default_of__direction=Queue.Direction.INBOUND,
        )
        .order_by("interface", "default_of__name")
        .values_list("pk", "interface", "default_of__name", "default_of__kind")
    )
    names: dict[tuple[int, str], list[tuple[str, str]]] = defaultdict(list)
    for number, interface, queue, kind in rows:
        names[number, interface].append((queue, kind))
    return [
        Taker(
            number,
            interface,
            tuple(queue for queue, _ in queues),
            tuple(queue for queue, kind in queues if kind == Queue.Kind.SEQUENTIAL),
        )
        for (number, interface), queues in names.items()
    ]


def _idle(ids: list[int]) -> list[Idle]:
    return [Idle(*row) for row in fetch_all(_IDLE, (settings.SLUICE_IS_GUEST, ids))]


def _short(ids: list[int]) -> list[Short]:
    short = []
    for queue in _perhaps_short(ids):
        takes = retry_line(queue.retry_policy()).seconds
        if takes is not None and takes > queue.retention_seconds:
            short.append(Short(queue.name, queue.topic, queue.retention_seconds, takes))
    return short


def _perhaps_short(ids: list[int]) -> QuerySet[Queue]:
    """Sequential queues whose retries could take longer than the topic keeps its messages."""
    longest = Cast(F("max_retries"), FloatField()) * Greatest(
        "retry_cap_seconds", "retry_delay_seconds"
    )
    return (
        Queue.objects.filter(
            pk__in=ids,
            kind=Queue.Kind.SEQUENTIAL,
            direction=Queue.Direction.INBOUND,
            enabled=True,
            unlimited_retries=False,
        )
        .annotate(longest=longest)
        .filter(longest__gt=F("retention_seconds"))[:MOST_POLICIES]
    )
