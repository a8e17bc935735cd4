"""Kill the worker at every step where keys keep their order, then account for each key in SQL.

What is tested: messages of a few keys, some of which fail once or for good; the process is killed
while it parks, while it tries what was woken, and while released failures bring their followers
along. Afterwards people repair what is held. Each message has one effect, and those of a key came
about in the order of the log.
"""

from itertools import cycle

import pytest

from integration.actions import failures
from integration.delivery.steps import Step
from integration.models import MessageError, Queue
from integration.runs.queues import run_queue
from tests.crash.test_engine_crash import child
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks, await_kill
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES = 240
KEYS = 12
STEPS = [Step.BEGUN, Step.HANDLED, Step.UNDONE, Step.SETTLED, Step.COMMITTED]
# More than a batch, with one that fails for good and some that fail once.
PORTION = MESSAGES // len(STEPS)


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker) -> Queue:
    fields = {"max_retries": 3, "batch_size": 40, "stay_seconds": 0.1, "retry_delay_seconds": 0}
    return a_queue(broker, ordering="key", carrier="row", **fields)


def a_deed(n: int) -> dict[str, object]:
    do = "permanent" if n % 50 == 7 else "until" if n % 23 == 5 else "ok"
    return {"n": n, "do": do, "until": 2}


def rest(queue: Queue) -> None:
    """Run until nothing is due, as the dispatcher would."""
    due = MessageError.objects.filter(queue=queue, state__in=["RETRY", "READY"])
    for _ in range(40):
        run_queue(queue.pk)
        if not due.exists():
            return
    raise AssertionError("The queue never came to rest.")


def repair_one(queue: Queue) -> None:
    """Correct and release the oldest of what is held, as people do."""
    row = MessageError.objects.filter(queue=queue, state="HOLD").earliest("offset")
    payload = row.current_payload.replace(b"permanent", b"ok")
    version = failures.edit(row.pk, version=row.version, actor="anna", payload=payload)
    failures.release(row.pk, version=version, actor="anna")


def account(queue: Queue) -> None:
    assert not MessageError.objects.filter(queue=queue).exclude(state="RESOLVED").exists()
    applied = list(Effect.objects.order_by("pk").values_list("n", flat=True))
    assert sorted(applied) == list(range(MESSAGES))
    for key in range(KEYS):
        of_key = [n for n in applied if n % KEYS == key]
        assert of_key == sorted(of_key), f"key k{key}"


def test_kills_while_messages_are_parked_and_followed_up_keep_each_keys_order(
    queue, broker, child_environment
):
    """At each step in turn; then, as one after the other is repaired, at each once more."""
    for place, step in enumerate(STEPS):
        portion = range(place * PORTION, (place + 1) * PORTION)
        broker.send_keyed(queue.topic, [(f"k{n % KEYS}", a_deed(n)) for n in portion])
        nth = 1 if step is Step.UNDONE else 2
        killed = child(queue, child_environment, step, nth, "KILL")
        await_kill(killed, step)
        rest(queue)
    held = MessageError.objects.filter(queue=queue, state="HOLD")
    assert held.count() >= len(STEPS)
    for step in cycle(STEPS):
        repair_one(queue)
        killed = child(queue, child_environment, step, 1, "KILL")
        killed.communicate(timeout=60)
        await_free_locks()
        rest(queue)
        if not held.exists():
            break
    account(queue)
