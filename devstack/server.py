"""One server of the stack: prepared once, started, known to be ready when it answers."""

import signal
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from devstack import errors
from devstack.supervise import Command, Process

READY_WITHIN_SECONDS = 90.0
POLL_SECONDS = 0.05


class Server(ABC):
    """A real server with its data, log and pid file in one folder, listening on loopback.

    `durable` servers run as they would in production; the others may trade what only a power
    cut or a benchmark would notice for speed. Both survive SIGKILL without losing what they
    acknowledged.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # How often a start is tried again when the server gives up: a PostgreSQL that was killed
    # refuses until the last of its old children is gone.
    tries: ClassVar[int] = 1
    between_tries_seconds: ClassVar[float] = 0.3

    def __init__(self, folder: Path, port: int, *, durable: bool) -> None:
        self.folder = folder
        self.port = port
        self.durable = durable
        self.process = Process(self.name, folder)

    @abstractmethod
    def prepare(self) -> None:
        """Make the data and configuration of a first start; nothing if they are there."""

    @abstractmethod
    def command(self) -> Command:
        """Say how the server is run in the foreground."""

    @abstractmethod
    def is_answering(self) -> bool:
        """Ask the server a question in its own protocol."""

    def start(self) -> None:
        """Start and return when it answers; nothing if it runs. Raises Problem DID_NOT_START."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.process.is_ending:
            self.stop()
        if not self.process.is_alive():
            self.process.rotate_log()
            self.prepare()
            self.process.spawn(self.command())
        self._wait_until_ready()

    def stop(self) -> bool:
        """Stop in an orderly way; by force after ten seconds. Returns whether it took no force."""
        return self.process.stop(with_signal=self.stop_signal, grace_seconds=10)

    def kill(self) -> None:
        """End it at once with SIGKILL, as a crash would; `start` brings it back with its data."""
        self.process.kill()

    def pause(self) -> None:
        """Freeze it with SIGSTOP: connections stay open and nothing answers."""
        self.process.pause()

    def resume(self) -> None:
        """Undo `pause`."""
        self.process.resume()

    def is_running(self) -> bool:
        return self.process.is_alive()

    def discard(self) -> None:
        """Remove data that lie outside `folder`; for sets that live no longer than a test."""
        return

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_SECONDS
        tries = self.tries
        while not self.is_answering():
            if time.monotonic() > until:
                raise self._failure()
            if not self.process.is_alive():
                tries -= 1
                if tries <= 0:
                    raise self._failure()
                time.sleep(self.between_tries_seconds)
                self.process.spawn(self.command())
            time.sleep(POLL_SECONDS)

    def _failure(self) -> errors.Problem:
        return errors.did_not_start(self.title, self.process.log, self.process.last_line())
