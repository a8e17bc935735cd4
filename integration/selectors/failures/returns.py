"""Topics that dead letters go back to: which ones may not, and those of a planned operation."""

from typing import Final, NamedTuple

from integration import registration
from integration.envelope.dead_letters import TOPIC_HEADERS
from integration.masking.mask import HIDDEN
from integration.models import Operation, Queue
from integration.policy.moves import SEND_BACK
from integration.policy.states import listed
from integration.selectors.masking.rules import Masks, masks
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup.queues import is_foreign
from integration.store.sessions import fetch_all

# So many different topics are shown and looked at before; the others tell while it runs.
MOST_SHOWN: Final = 100
_WAYS: Final = f"""
SELECT e.queue_id, e.origin_topic, count(*)
FROM integration_operationitem i JOIN integration_messageerror e ON e.id = i.error_id
WHERE i.operation_id = %s AND e.version = i.version AND e.state IN {listed(SEND_BACK.expected)}
GROUP BY 1, 2 ORDER BY 3 DESC, 2, 1 LIMIT %s
"""


class Way(NamedTuple):
    """Messages of one error queue that came from one topic; `refusal` is why they stay."""

    queue: str
    topic: str
    messages: int
    refusal: str


def refusal(queue: Queue, topic: str, scope: Scope = EVERYTHING) -> str:
    """Return why a dead letter of this queue may not go to the topic it came from, or nothing.

    People whom a scope limits write to topics of their own only.
    """
    why = _refusal(queue, topic, scope)
    return _hidden(why, queue, topic, masks()) if why else ""


def _refusal(queue: Queue, topic: str, scope: Scope) -> str:
    if not topic:
        return "Its headers do not tell from which topic it came."
    if topic == queue.topic:
        return (
            f"It came from {topic}, which this error queue reads itself: it would be back at once."
        )
    if sentences := registration.topic_name_mistakes(topic):
        return sentences[0]
    there = Queue(provider_id=queue.provider_id, topic=topic, system=queue.system)
    if is_foreign(there, scope, is_made=False):
        return (
            f"You may not write to {topic}: it is no topic of the external systems you look after."
        )
    return ""


def ways_of(operation: Operation, scope: Scope) -> list[Way]:
    """Where the messages of a planned operation would go now, the most first."""
    rows = fetch_all(_WAYS, [operation.pk, MOST_SHOWN])
    queues = Queue.objects.select_related("system").in_bulk([row[0] for row in rows])
    rules, ways = masks(), []
    for id_, topic, count in rows:
        queue = queues[id_]
        shown, why = (
            _hidden(text, queue, topic, rules) for text in (topic, _refusal(queue, topic, scope))
        )
        ways.append(Way(queue.name, shown, count, why))
    return ways


def _hidden(text: str, queue: Queue, topic: str, rules: Masks) -> str:
    """A text without the topic, where a rule may hide the header that told it."""
    is_hidden = topic and rules.of_queue(queue).hides_any(TOPIC_HEADERS)
    return text.replace(topic, HIDDEN) if is_hidden else text
