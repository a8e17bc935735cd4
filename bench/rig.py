"""One benchmark's installation: its database, its topics, and Sluice's own processes on them."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from bench import traffic
from devstack import paths, ports
from devstack.parts import PARTS
from devstack.supervise import Command, Process

Session = psycopg.Connection[tuple[Any, ...]]

WAIT_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.05
READY_SECONDS: Final = 60.0
SHIPPED: Final = {part.name: part.arguments for part in PARTS}


class BenchmarkError(Exception):
    """A benchmark could not be carried out; says what was waited for and where the logs are."""


@dataclass
class Rig:
    """Everything of one benchmark. Sluice's side runs by the commands of devstack.parts alone."""

    folder: Path
    database_url: str
    broker_url: str
    bootstrap: str
    inherited: Mapping[str, str]
    processes: dict[str, Process] = field(default_factory=dict)
    _session: Session | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.inherited,
            "SLUICE_DATABASE_URL": self.database_url,
            "SLUICE_CELERY_BROKER_URL": self.broker_url,
        }

    @property
    def session(self) -> Session:
        """The benchmark's own look at the database; every statement commits."""
        if self._session is None:
            self._session = psycopg.connect(self.database_url, autocommit=True)
        return self._session

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self.session.execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        row = self.session.execute(sql, parameters).fetchone()
        return None if row is None else row[0]

    def write(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> None:
        self.session.execute(sql, parameters)

    # topics and queues

    def spread_topic(self, name: str, partitions: int, payloads: Sequence[bytes]) -> str:
        """Make a topic with several partitions, each of which gets as many of the payloads."""
        traffic.make_topic(self.bootstrap, name, partitions)
        for partition in range(partitions):
            traffic.produce(
                self.bootstrap, name, payloads[partition::partitions], partition=partition
            )
        return name

    def topic(
        self, name: str, payloads: Iterable[bytes] = (), key_of: traffic.Key | None = None
    ) -> str:
        """Make a topic with one partition and fill it, message n at offset n."""
        traffic.make_topic(self.bootstrap, name)
        traffic.produce(self.bootstrap, name, payloads, key_of)
        return name

    def configure(self, *queues: Mapping[str, object]) -> dict[str, int]:
        """Save queues through the models; returns their ids by name."""
        made = self.manage("bench_configure", stdin=json.dumps(queues))
        ids: dict[str, int] = json.loads(made.splitlines()[-1])
        return ids

    def manage(
        self, *words: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        """Run a management command; returns what it printed. Raises BenchmarkError."""
        done = subprocess.run(
            [str(paths.python()), "manage.py", *words],
            cwd=paths.ROOT,
            env={**self.environment, **(environment or {})},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BenchmarkError(f"manage.py {' '.join(words)}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    # processes

    def start(self, part: str, environment: Mapping[str, str] | None = None) -> Process:
        """Start a part of Sluice by its shipped command."""
        return self.spawn(part, SHIPPED[part], environment)

    def start_web(self, environment: Mapping[str, str] | None = None) -> str:
        """Start the console; returns its address when it answers."""
        port = ports.choose()
        words = [word.replace("{web_port}", str(port)) for word in SHIPPED["web"]]
        self.spawn("web", words, environment)
        address = f"http://127.0.0.1:{port}/"
        self.until(lambda: answers(address), "the console answers", READY_SECONDS)
        return address

    def start_worker(
        self, name: str = "worker", environment: Mapping[str, str] | None = None, **words: int
    ) -> Process:
        """Start a worker by the shipped command; `concurrency` replaces the shipped number."""
        command = [word.replace("worker@", f"{name}@") for word in SHIPPED["worker"]]
        if "concurrency" in words:
            command[command.index("-c") + 1] = str(words["concurrency"])
        started = self.spawn(name, command, environment)
        self.until(lambda: self._is_beating(name, started), f"{name} is ready", READY_SECONDS)
        return started

    def spawn(
        self, name: str, words: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start a Python program with Sluice's environment."""
        return self.begin(
            name,
            Command(
                argv=[paths.python(), *words],
                environment={**self.environment, **(environment or {})},
                folder=paths.ROOT,
            ),
        )

    def begin(self, name: str, command: Command) -> Process:
        """Start any program; it ends with this benchmark at the latest."""
        process = Process(name, self.folder)
        process.spawn(command)
        self.processes[name] = process
        return process

    def _is_beating(self, name: str, process: Process) -> bool:
        if not process.is_alive():
            raise BenchmarkError(f"{name} ended: {process.last_line()} (log: {process.log})")
        return bool(
            self.rows(
                "SELECT 1 FROM crontasks_heartbeat "
                "WHERE kind = 'worker' AND node LIKE %s AND pid = %s",
                [f"{name}@%", process.pid],
            )
        )

    def until(self, holds: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
        """Poll until it holds. Raises BenchmarkError that names what was waited for."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"waited {seconds:.0f} s in vain until {what} (logs: {self.folder})"
                )
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End every process of this benchmark, by pid."""
        for process in self.processes.values():
            process.kill()
        self.forget_session()

    def forget_session(self) -> None:
        """Look by a new session next time: this one may not outlive what comes."""
        if self._session is not None:
            self._session.close()
            self._session = None


def answers(address: str) -> bool:
    """Return whether a web server gives any answer there, be it a redirection to the login."""
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own http address
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
