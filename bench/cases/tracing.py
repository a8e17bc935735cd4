"""The cost of tracing: of a context that only travels on, and of spans that are sent."""

import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from bench import cpu, facts, traffic, workload
from bench.app import looks
from bench.cases.throughput import KEYS, filled
from bench.figure import Figure, below
from bench.ground import Ground
from bench.pairs import Paired, run_pairs
from bench.queue import BenchQueue
from bench.rig import Rig
from devstack.supervise import Process

# What is measured is the small difference of two large figures.
PAIRS: Final = 12
# Two workers of the same code differ by some percent for as long as they live.
STARTS: Final = 3
STOP_SECONDS: Final = 30
RUNS: Final = 5
INTERFACE: Final = "BenchBatch"
# As long as each other, and one says nothing to anybody.
CONTEXT: Final = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
OTHER: Final = ("other-name.", CONTEXT[1])


@dataclass(frozen=True, slots=True)
class Side:
    """A queue, the worker that runs it, and what is done before each run."""

    queue: BenchQueue
    worker: Process
    before: Callable[[], object] = bool


def otel_off(ground: Ground) -> Figure:
    """Tracing is off: the part of `inbound_batch`'s processor time that looks for traces.

    Taken around the look itself, for it costs less than two runs of the same differ by.
    """
    count = 15_000 if ground.quick else 90_000
    with ground.rig("otel_off") as rig:
        queue = filled(rig, rig.folder.name, INTERFACE, count)
        file = rig.folder / "looks"
        worker = rig.start_worker(environment={looks.VARIABLE: str(file)})
        side = Side(queue, worker, partial(file.unlink, missing_ok=True))
        used: list[cpu.Used] = []
        told = [(_run(side, used), *looks.told(file)) for _ in range(RUNS + 1)]
    parts = [spent / 1e9 / sum(each) for (_, _, spent), each in zip(told, used, strict=True)]
    part = statistics.median(parts[1:])
    return Figure(
        name="otel_off",
        value=100 * part,
        unit="%",
        n=count,
        ratio=1 - part,
        against="processor time of worker and database for the same batches",
        target=below("value", 1),
        claims={"every message was looked at": all(seen == count for _, seen, _ in told)},
        facts={
            "percents": [round(100 * each, 3) for each in parts[1:]],
            "nanoseconds_a_message": round(statistics.median(each[2] for each in told) / count),
        },
    )


def trace_kept(ground: Ground) -> Figure:
    """Tracing is off: batches that carry a context against the same with another header.

    Nearly all of the cost is tracking: it keeps the trace, and finds by it.
    """
    count = 15_000 if ground.quick else 90_000
    with ground.rig("trace_kept") as rig:
        with_context = _headed(rig, "with-context", count, CONTEXT)
        without = _headed(rig, "without", count, OTHER)
        worker = rig.start_worker()
        sides = Side(with_context, worker), Side(without, worker)
        return _figure(ground, "trace_kept", [sides], 5)


def otel_on(ground: Ground) -> Figure:
    """Tracing is on, by OpenTelemetry's defaults, against the same queue with tracing off."""
    count = 15_000 if ground.quick else 90_000
    with ground.rig("otel_on") as on, ground.rig("otel_none") as off, _collector() as address:
        traced, plain = (filled(rig, rig.folder.name, INTERFACE, count) for rig in (on, off))
        variables = {"SLUICE_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": address}
        starts = _started(traced, plain, variables, 1 if ground.quick else STARTS)
        return _figure(ground, "otel_on", starts, 10, pairs=PAIRS // STARTS)


def _started(
    ours: BenchQueue, theirs: BenchQueue, variables: dict[str, str], times: int
) -> Iterator[tuple[Side, Side]]:
    """Each time with workers of their own, ours with these variables."""
    for _ in range(times):
        workers = ours.rig.start_worker(environment=variables), theirs.rig.start_worker()
        yield Side(ours, workers[0]), Side(theirs, workers[1])
        for worker in workers:
            worker.stop(grace_seconds=STOP_SECONDS)


def _figure(
    ground: Ground,
    name: str,
    starts: Iterable[tuple[Side, Side]],
    percent: float,
    pairs: int = PAIRS,
) -> Figure:
    """By processor time: what other programs take meanwhile is more than what is looked for."""
    used: tuple[list[cpu.Used], list[cpu.Used]] = ([], [])
    paired = Paired([], [])
    count = 0
    for ours, theirs in starts:
        runs: tuple[list[cpu.Used], list[cpu.Used]] = ([], [])
        more = run_pairs(
            partial(_run, ours, runs[0]),
            partial(_run, theirs, runs[1]),
            quick=ground.quick,
            pairs=pairs,
        )
        count = ours.queue.count
        for all_of, these in zip(used, runs, strict=True):
            all_of.extend(these[1:])
        paired.ours.extend(more.ours)
        paired.theirs.extend(more.theirs)
    told = cpu.as_facts(*used, count)
    ratio = float(str(told["ratio_by_cpu"]))
    return Figure(
        name=name,
        value=100 * (1 - ratio),
        unit="%",
        n=count,
        ratio=ratio,
        against="the same batches without, by processor time of worker and database",
        target=below("value", percent),
        facts={"rate": round(paired.value), **paired.facts, **told},
    )


def _run(side: Side, used: list[cpu.Used]) -> float:
    side.before()
    queue = side.queue
    meter = cpu.Meter(queue.rig, side.worker)
    queue.run()
    used.append(meter.used())
    rate = facts.rate(queue.rig, facts.OURS)
    facts.every_one_once(queue.rig, facts.OURS, queue.count)
    queue.switch_off()
    return rate


def _headed(rig: Rig, name: str, count: int, header: tuple[str, bytes]) -> BenchQueue:
    """A queue as `filled` makes them, whose records have this one header."""
    queue = filled(rig, name, INTERFACE, 0)
    payloads = workload.assets(count, KEYS)
    traffic.produce(rig.bootstrap, queue.topic, payloads, headers=[header])
    return BenchQueue(rig, queue.id, queue.topic, count)


class _Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Figures are all that is printed."""


@contextmanager
def _collector() -> Iterator[str]:
    """Takes whatever spans come, and looks at none."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Taker)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
