"""The speed of messages out over HTTP: against a plain loop, and in parallel against in turn."""

import json
import urllib.request

from bench import facts, workload
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue
from bench.rig import BenchmarkError, Rig, answers
from devstack import ports

KEYS = 20_000
CONCURRENCY = 8
LATENCY_MS = 20


def http_sequential(ground: Ground) -> Figure:
    """A sequential queue to a local server that answers at once."""
    count = 1_500 if ground.quick else 4_000
    with ground.rig("http_sequential") as rig:
        address = partner(rig, "at_once", 0)
        queue = outbound(rig, "http_sequential", count, address=address, kind="sequential")
        worker = rig.start_worker()

        def ours() -> float:
            return sent(queue, address)

        def theirs() -> float:
            queue.empty_tables()
            ask(address, "DELETE")
            worker.pause()
            try:
                words = ["-m", "bench.handwritten_http", queue.topic, str(count), address]
                process = rig.spawn("handwritten", words)
                rig.until(lambda: not process.is_alive(), "the plain httpx loop has ended")
            finally:
                worker.resume()
            every_one_arrived(address, count)
            return float(rig.value("SELECT rate FROM bench_rate"))

        paired = run_pairs(ours, theirs, quick=ground.quick)
    return Figure(
        name="http_sequential",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="plain httpx loop with a commit for each message",
        target=at_least("ratio", 0.8),
        facts=paired.facts,
    )


def http_concurrency(ground: Ground) -> Figure:
    """Eight messages at once against one at a time, at a partner that takes 20 ms to answer."""
    counts = (150, 800) if ground.quick else (300, 2_000)
    with ground.rig("http_concurrency") as rig:
        address = partner(rig, "slow", LATENCY_MS)
        single = outbound(rig, "one_by_one", counts[0], address=address, kind="sequential")
        parallel = outbound(
            rig,
            "eight_at_once",
            counts[1],
            address=address,
            kind="continuous",
            concurrency=CONCURRENCY,
        )
        rig.start_worker()
        paired = run_pairs(
            lambda: sent(parallel, address), lambda: sent(single, address), quick=ground.quick
        )
    return Figure(
        name="http_concurrency",
        value=paired.value,
        unit="msg/s",
        n=counts[1],
        ratio=paired.ratio,
        against="the same endpoint, one message at a time",
        target=at_least("ratio", 4.0),
        facts={**paired.facts, "concurrency": CONCURRENCY, "latency_ms": LATENCY_MS},
    )


def outbound(rig: Rig, name: str, count: int, **fields: object) -> BenchQueue:
    """An outbound queue with shipped settings on a topic full of assets, switched off."""
    topic = rig.topic(name, workload.assets(count, KEYS))
    ids = rig.configure({"name": name, "topic": topic, "enabled": False, **fields})
    return BenchQueue(rig, ids[name], topic, count)


def sent(queue: BenchQueue, address: str) -> float:
    """Let the worker send the queue; returns its rate by the commits of its tracking rows."""
    ask(address, "DELETE")
    queue.run()
    rate = facts.rate(queue.rig, facts.OURS)
    facts.every_one_once(queue.rig, facts.OURS, queue.count)
    queue.switch_off()
    every_one_arrived(address, queue.count)
    return rate


def partner(rig: Rig, name: str, latency_ms: int) -> str:
    """Start a partner of its own process; returns its address when it answers."""
    port = ports.choose()
    rig.spawn(name, ["-m", "bench.partner", str(port), str(latency_ms)])
    address = f"http://127.0.0.1:{port}/"
    rig.until(lambda: answers(address), "the partner answers")
    return address


def every_one_arrived(address: str, count: int) -> None:
    """Raise BenchmarkError unless each message was posted, and once."""
    arrivals = json.loads(ask(address, "GET"))
    if (arrivals["posts"], arrivals["ids"]) != (count, count):
        raise BenchmarkError(f"the partner should have {count} messages once each, but: {arrivals}")


def ask(address: str, method: str) -> bytes:
    request = urllib.request.Request(address, method=method)  # noqa: S310 - our own http address
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
        read: bytes = answer.read()
    return read
