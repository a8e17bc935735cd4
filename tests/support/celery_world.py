"""Real Celery workers and beats as child processes of a test."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, TypeVar

import psutil

from crontasks.models import Heartbeat
from tests.support import warm

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
# How often something is looked for that has not come about for a while: each look is work, of
# which the processes that are waited for have enough.
SELDOM_SECONDS = 0.1


class Child:
    """A worker or a beat in a process group of its own."""

    program: ClassVar[list[str]] = ["-m", "celery", "-A", "config"]

    def __init__(
        self,
        name: str,
        arguments: list[str],
        environment: dict[str, str],
        folder: Path,
        program: list[str] | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as out:
            self.process = warm.child(
                [*(program or self.program), *arguments],
                environment,
                log=out,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End the whole group at once, as a power cut would; nothing where it has just ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(10)

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()


class CeleryWorld:
    """Starts children and ends those that are left."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        self.children: list[Child] = []

    def worker(
        self,
        name: str,
        *,
        concurrency: int = 2,
        queues: str = "celery",
        host: str = "test",
        program: Sequence[str] = (),
        pool: str = "prefork",
    ) -> Child:
        """A worker, ready: its heart beats. `program` is a module in the place of Celery's own."""
        options = ["-P", pool, "-c", str(concurrency), "-Q", queues]
        words = ["worker", "-l", "INFO", "-n", f"{name}@{host}", *options]
        child = self._start(name, words, ["-m", *program] if program else None)
        eventually(lambda: Heartbeat.objects.filter(kind="worker", pid=child.pid).exists(), child)
        return child

    def beat(self, name: str) -> Child:
        child = self._start(name, ["beat", "-l", "INFO", f"--pidfile={self.folder / name}.pid"])
        eventually(lambda: Heartbeat.objects.filter(kind="beat", pid=child.pid).exists(), child)
        return child

    def _start(self, name: str, arguments: list[str], program: list[str] | None = None) -> Child:
        child = Child(name, arguments, self.environment, self.folder, program)
        self.children.append(child)
        return child


@contextmanager
def celery_world(environment: dict[str, str], folder: Path) -> Iterator[CeleryWorld]:
    world = CeleryWorld(environment, folder)
    try:
        yield world
    finally:
        for child in world.children:
            child.end()


def eventually(
    found: Callable[[], T], *children: Child, seconds: float = 60.0, every: float = 0.02
) -> T:
    """Ask until the answer is truthy, less and less often; the last logs tell why it never was."""
    end = time.monotonic() + seconds
    pause = every
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > end:
            logs = "\n".join(f"--- {c.name}\n{c.text()[-3000:]}" for c in children)
            raise AssertionError(f"did not come about within {seconds} s\n{logs}")
        time.sleep(pause)
        pause = max(every, min(pause * 1.05, SELDOM_SECONDS))
