"""How many messages wait at JMS brokers, in the lag monitor: counted by a look, up to a bound.

A broker tells no number by AMQP itself, and each has ways of its own beside it. So what waits is
looked at, once a minute for each queue, over one connection for each broker.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from crontasks.builtin import resting
from crontasks.models.notice import PROVIDER, NoticeKind
from crontasks.notices.condition import Condition
from crontasks.outcome import Context
from integration.amqp.errors import JmsError, JmsLibraryMissingError, JmsUnreachableError
from integration.models import Provider, Queue
from integration.selectors.delivering.senders import RUNS
from integration.selectors.queues import waiting
from integration.store.partition_state import not_held
from integration.store.sessions import execute, fetch_all

EVERY_SECONDS: Final = 60
# The position before the look: what is settled meanwhile was in the hands of a run, and not seen.
_DUE: Final = f"""
    SELECT queue_id, min(next_offset) FROM integration_queuepartition WHERE queue_id = ANY(%s)
    GROUP BY queue_id HAVING coalesce(min(seen_at), '-infinity'::timestamptz)
        < clock_timestamp() - make_interval(secs => {EVERY_SECONDS})"""
_COUNTED: Final = f"""
    UPDATE integration_queuepartition SET high_watermark = %s::bigint + %s, more_waiting = %s,
        oldest_waiting_at = %s, seen_at = clock_timestamp()
    WHERE id IN ({not_held("queue_id = %s")})"""
_NOT_TOLD: Final = f"""
    UPDATE integration_queuepartition SET high_watermark = NULL, more_waiting = false,
        oldest_waiting_at = NULL, seen_at = clock_timestamp()
    WHERE id IN ({not_held("queue_id = %s")})"""


def look(context: Context) -> Iterator[Condition]:
    """Write down what waits at each JMS broker; yield the condition of those that do not answer."""
    queues = Queue.objects.filter(RUNS, provider__kind=Provider.Kind.JMS, enabled=True)
    for provider in Provider.objects.filter(pk__in=queues.values("provider")).order_by("pk"):
        ids = list(queues.filter(provider=provider).order_by("pk").values_list("pk", flat=True))
        due = _due(ids)
        if context.should_stop():
            return
        try:
            _count_all(provider, due, context)
        except JmsLibraryMissingError:
            # The flow check of each queue says so.
            continue
        except JmsError as problem:
            reason = f"{problem.code}: {problem.sentence}"
            context.say(f"{provider.name}: {reason}")
            yield Condition(NoticeKind.OUTAGE, f"{PROVIDER}{provider.name}", reason)


def _due(ids: Sequence[int]) -> dict[int, int]:
    """Queues that are looked at now, with their positions; not those that rest."""
    left = resting.left_alone(ids).queues
    asked = [number for number in ids if number not in left]
    return dict(fetch_all(_DUE, (asked,)))


def _count_all(provider: Provider, due: dict[int, int], context: Context) -> None:
    """Raises JmsError where the broker does not answer, JmsLibraryMissingError."""
    if not due:
        return
    with closing(waiting.browser_of(provider, "depth")) as browser:
        for queue in Queue.objects.filter(pk__in=due).order_by("pk"):
            if context.should_stop():
                return
            queue.provider = provider
            _count(browser, queue, due[queue.pk])


def _count(browser: Any, queue: Queue, position: int) -> None:
    """Raises JmsUnreachableError."""
    try:
        depth = waiting.depth(browser, queue)
    except JmsUnreachableError:
        raise
    except JmsError:
        # It is about this queue alone; what is known of it is too old to be shown.
        execute(_NOT_TOLD, (queue.pk,))
        return
    counted = (position, depth.count, not depth.is_all, depth.oldest_at, queue.pk)
    execute(_COUNTED, counted)
