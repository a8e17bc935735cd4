"""Kill the worker around the hook that is called when retries are spent, and count what it did.

The hook writes a row and publishes a message in the transaction that puts its message on hold. A
child is killed by SIGKILL before and after that commit; then SQL says that both are there once.
"""

import pytest

from integration.delivery.steps import Step
from integration.models import EnterpriseService, MessageError, OutboxRow
from integration.runs.queues import run_queue
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.flows import effects
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("step", [Step.SETTLED, Step.COMMITTED])
def test_a_kill_around_the_hook_neither_loses_nor_doubles_what_it_did(
    servers, child_environment, step
):
    broker = Kafka(servers.kafka_bootstrap)
    a_queue(broker, name="out", direction="outbound")
    service = EnterpriseService.objects.create(interface="OBEY.TOLD")
    queue = a_queue(broker, default_service=service, stay_seconds=0.1)
    broker.send(queue.topic, [{"n": 1}, {"n": 2, "do": "transient"}, {"n": 3}])
    words = [str(queue.pk), step.value, "1", "KILL"]
    killed = warm.child(["-m", "tests.support.crash_child", *words], child_environment)
    await_kill(killed, step)
    for _ in range(3):
        run_queue(queue.pk)
    assert effects() == [-2, 1, 3]
    assert OutboxRow.objects.filter(kind="MESSAGE").count() == 1
    assert MessageError.objects.get().state == "HOLD"
