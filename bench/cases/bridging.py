"""The speed of messages between a topic and a JMS queue, against bridges written by hand."""

import json
from itertools import count
from typing import Final

from bench import facts
from bench.cases.http import outbound
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.jms import broker, endpoint, fill, login, taken
from bench.pairs import run_pairs
from bench.queue import BenchQueue, run_beside
from bench.rig import BenchmarkError
from devstack.artemis import Artemis

AT_ONCE: Final = 500
TARGET: Final = "from-jms"
_OUTBOX: Final = "integration_outboxrow"
_PUBLISHED: Final = f"SELECT count(DISTINCT message_id) FROM {_OUTBOX} WHERE state = 'PUBLISHED'"


def bridge_egress(ground: Ground) -> Figure:
    """A continuous queue of a JMS broker that forwards, and the relay that writes to Kafka."""
    messages = 5_000 if ground.quick else 20_000
    with ground.rig("bridge_egress") as rig, broker(rig.folder) as server:
        rig.topic(TARGET)
        id_ = rig.configure(_forwarding(server))["bridge"]
        queue = BenchQueue(rig, id_, "from-jms", messages)
        worker = rig.start_worker()
        rig.start("relay")
        rig.start("beat")

        def ours() -> float:
            fill(server, queue.topic, messages)
            queue.run()
            rig.until(lambda: rig.value(_PUBLISHED) == messages, "all are in Kafka")
            rate = facts.rate(rig, _OUTBOX)
            queue.switch_off()
            _none_left(server, queue.topic)
            return rate

        def theirs() -> float:
            fill(server, queue.topic, messages)
            words = ["from", TARGET, str(messages), str(server.port), server.password, queue.topic]
            run_beside(queue, ["bench.handbridge", *words], worker)
            _none_left(server, queue.topic)
            return float(rig.processes["handwritten"].log.read_text().split()[-1])

        paired = run_pairs(ours, theirs, quick=ground.quick)
    return Figure(
        name="bridge_egress",
        value=paired.value,
        unit="msg/s",
        n=messages,
        ratio=paired.ratio,
        against="hand-written bridge, accepted in AMQP transactions of 100 once Kafka has them",
        target=at_least("ratio", 0.7),
        facts=paired.facts,
    )


def _forwarding(server: Artemis) -> dict[str, object]:
    """The queue that reads from the broker, as `bench_configure` takes it."""
    return {
        "name": "bridge",
        "topic": "from-jms",
        "kind": "continuous",
        "carrier": "row",
        "rescue": False,
        "enabled": False,
        "jms": login(server),
        "forwards_to": TARGET,
    }


def bridge_ingress(ground: Ground) -> Figure:
    """A continuous queue whose endpoint sends 500 at a time, under ids that drop repeats."""
    messages = 5_000 if ground.quick else 20_000
    numbers = count()
    with ground.rig("bridge_ingress") as rig, broker(rig.folder) as server:
        queue = outbound(
            rig,
            "bridged",
            messages,
            address="http://127.0.0.1/",
            idempotent=True,
            kind="continuous",
        )
        worker = rig.start_worker()

        def ours() -> float:
            # Each run has a JMS queue of its own.
            name = f"bridged-{next(numbers)}"
            wanted = endpoint(queue.topic, server, name, at_once=AT_ONCE)
            rig.manage("bench_endpoint", stdin=json.dumps(wanted))
            queue.run()
            rate = facts.rate(rig, facts.OURS)
            facts.every_one_once(rig, facts.OURS, messages)
            queue.switch_off()
            _every_one_once(server, name, messages)
            return rate

        def theirs() -> float:
            name = f"bridged-{next(numbers)}"
            words = ["to", queue.topic, str(messages), str(server.port), server.password, name]
            run_beside(queue, ["bench.handbridge", *words], worker)
            rate = float(rig.processes["handwritten"].log.read_text().split()[-1])
            _every_one_once(server, name, messages)
            return rate

        paired = run_pairs(ours, theirs, quick=ground.quick)
    return Figure(
        name="bridge_ingress",
        value=paired.value,
        unit="msg/s",
        n=messages,
        ratio=paired.ratio,
        against="hand-written bridge, AMQP transactions of 100, offsets committed afterwards",
        target=at_least("ratio", 0.7),
        facts=paired.facts,
    )


def _none_left(server: Artemis, name: str) -> None:
    """Raise BenchmarkError unless the JMS queue is empty."""
    if taken(server, name):
        raise BenchmarkError("the broker still has some")


def _every_one_once(server: Artemis, name: str, count: int) -> None:
    """Raise BenchmarkError unless the JMS queue has so many messages, each once."""
    ids = taken(server, name)
    if len(ids) != count or len(set(ids)) != count:
        raise BenchmarkError(f"{name} should have {count} messages once each, but has {len(ids)}")
