"""`hang`: a handler that does not come back costs its own queue's time, and nobody else's."""

import time
from typing import Final

from bench import traffic
from bench.drill.ground import Ground
from bench.drill.steady import Pings, Steadily, spread
from bench.rig import BenchmarkError

HELD: Final = "HANDLER_TIMEOUT"
BEFORE_SECONDS: Final = 20.0
LIMIT_SECONDS: Final = 600.0
LATEST_SECONDS: Final = 2.0
EVERY_SECONDS: Final = 0.25
# Its queue was just made: the first message also waits for the first run of a new queue.
FIRST_RUN_SECONDS: Final = 30.0
_OPEN: Final = """
SELECT e.state, e.code, e.crashes FROM integration_messageerror e
JOIN integration_queue q ON q.id = e.queue_id WHERE q.name = %s
"""
# Every process that Sluice knows by its heartbeat; a pool's own children have none.
_PROCESSES: Final = "SELECT kind, node, pid FROM crontasks_heartbeat ORDER BY kind, node, pid"


def drill(ground: Ground) -> dict[str, object]:
    """Hang until the message is on hold, and time the queue beside it before and meanwhile."""
    beside = ground.queue("beside", kind="continuous", interface="BenchPing")
    hanging = ground.queue("hang", kind="continuous", interface="BenchHang")
    pings = Pings(ground.bootstrap, beside)
    pings.send()
    ground.until(lambda: ground.effects(beside), f"{beside} runs", FIRST_RUN_SECONDS)
    processes = ground.rows(_PROCESSES)
    with Steadily(EVERY_SECONDS, pings.send) as sending:
        time.sleep(BEFORE_SECONDS)
        first = pings.sent
        traffic.produce(ground.bootstrap, hanging, [b'{"seq": 0, "sleeps": 600}'])
        try:
            seconds = ground.until(lambda: _state(ground, hanging)[0] == "HOLD", "", LIMIT_SECONDS)
        except BenchmarkError:
            # What it is instead is in the line.
            seconds = LIMIT_SECONDS
    time.sleep(LATEST_SECONDS)
    effects = ground.effects(beside)
    before = [took for number, took in effects.items() if 0 < number < first]
    meanwhile = [took for number, took in effects.items() if number >= first]
    state, code, tries = _state(ground, hanging)
    lost = pings.sent - len(effects)
    as_before = ground.rows(_PROCESSES) == processes
    is_prompt = max([*before, *meanwhile], default=LIMIT_SECONDS) <= LATEST_SECONDS
    return {
        "ok": (state, code) == ("HOLD", HELD) and as_before and not lost and is_prompt,
        "state": state,
        "code": code,
        "tries": tries,
        "seconds": round(seconds, 1),
        **spread("before", before),
        **spread("meanwhile", meanwhile),
        "lost": lost,
        "not_sent": len(sending.failures),
        "processes_as_before": as_before,
    }


def _state(ground: Ground, queue: str) -> tuple[str, str, int]:
    """State, code and ended processes of the queue's only failure."""
    return next(iter(ground.rows(_OPEN, [queue])), ("", "", 0))
