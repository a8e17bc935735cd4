"""Sluice's processes in a run with faults: started by their shipped commands after each death."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bench.faults.looking import Look
from bench.rig import SHIPPED, BenchmarkError, Rig
from devstack import proc
from devstack.supervise import Process

WORKERS: Final = ("worker-1", "worker-2")
BEATS: Final = ("beat-1", "beat-2")
RELAYS: Final = ("relay-1", "relay-2")
ALL: Final = (*WORKERS, *BEATS, *RELAYS)
# This one's clock is wrong where any is.
SKEWED: Final = "worker-2"
READY_SECONDS: Final = 90.0
GRACE_SECONDS: Final = 40.0
_BEATING: Final = "SELECT 1 FROM crontasks_heartbeat WHERE node LIKE %s AND pid = %s"
_SKEW: Final = """
SELECT clock_skew_seconds FROM crontasks_heartbeat
WHERE kind = 'worker' AND node LIKE %s ORDER BY seen_at DESC LIMIT 1
"""


class Processes:
    """All but the web, by name. `environment` may lead them to the servers by another way."""

    def __init__(
        self, rig: Rig, environment: Mapping[str, str] | None = None, skew_seconds: int = 0
    ) -> None:
        self.rig = rig
        self.environment = environment or {}
        self.skew_seconds = skew_seconds
        self.look = Look(rig.database_url)

    def start(self, name: str) -> None:
        self.rig.spawn(name, self._words(name), self.environment)

    def start_all(self) -> None:
        """Start each, and return when the workers show a heartbeat."""
        for name in ALL:
            self.start(name)
        for name in WORKERS:
            self.rig.until(partial(self._is_beating, name), f"{name} is ready")

    def start_dead(self) -> None:
        """Start those that do not live, and let those go on that stand still."""
        for name in ALL:
            if self.of(name).is_alive():
                self.of(name).resume()
            else:
                self.start(name)

    def stop_all(self) -> list[str]:
        """Ask all to end, the web included if there is one; returns those that had to be killed."""
        return [
            name
            for name in (*BEATS, *WORKERS, *RELAYS, "web")
            if name in self.rig.processes and not self.of(name).stop(grace_seconds=GRACE_SECONDS)
        ]

    def of(self, name: str) -> Process:
        return self.rig.processes[name]

    def pool(self, name: str) -> list[int]:
        """The pool processes of a worker."""
        pid = self.of(name).pid
        return [] if pid is None else proc.tree(pid)[1:]

    def skew_shown(self) -> float:
        """How wrong the clock is of the worker that has a wrong one, as it says itself."""
        return float(self.look.value(_SKEW, [f"{SKEWED}@%"]) or 0.0)

    def _words(self, name: str) -> list[str]:
        part = name.partition("-")[0]
        words = [word.replace(f"{part}@", f"{name}@") for word in SHIPPED[part]]
        if name == SKEWED and self.skew_seconds:
            # As `python -m MODULE …`, but for the clock.
            return ["-m", "bench.chaos.skewed", str(self.skew_seconds), *words[1:]]
        return words

    def _is_beating(self, name: str) -> bool:
        process = self.of(name)
        if not process.is_alive():
            raise BenchmarkError(f"{name} ended: {process.last_line()} (log: {process.log})")
        return bool(self.look.rows(_BEATING, [f"{name}@%", process.pid]))
