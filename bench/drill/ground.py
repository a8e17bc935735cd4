"""What a drill stands on: the stack that `make run` started in this checkout."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from bench.rig import BenchmarkError, Rig, answers
from bench.smoke.person import Person
from devstack import keys, paths
from devstack.app import App
from devstack.servers import as_left_in

INTEGRATION: Final = "bench.app"
_PASSWORD: Final = "SLUICE_ADMIN_PASSWORD"  # noqa: S105 - the name of a variable
_EFFECTS: Final = """
SELECT seq, extract(epoch FROM min(written_at - sent_at))::float8, count(*)
FROM bench_effect WHERE queue = %s GROUP BY seq
"""
_SWITCH_OFF: Final = """
UPDATE integration_queue SET enabled = false, start_requested_at = NULL,
  changed_at = clock_timestamp() WHERE name = ANY(%s)
"""
_REVOKE: Final = """
UPDATE integration_apitoken t SET revoked_at = now() FROM integration_externalsystem s
WHERE s.id = t.system_id AND s.name = ANY(%s) AND t.revoked_at IS NULL
"""


@dataclass
class Ground:
    """Addresses, logins and looks of the running stack; nothing of it is started or stopped here.

    `address` ends in a slash; `login` is the administrator's name and password; `environment` is
    that of a process of Sluice.
    """

    address: str
    login: tuple[str, str]
    database_url: str
    bootstrap: str
    environment: Mapping[str, str]
    made: list[str] = field(default_factory=list)
    # So that every drill can be run again on the same database and the same Kafka.
    suffix: str = field(default_factory=lambda: f"{time.time():.0f}")

    @cached_property
    def rig(self) -> Rig:
        """The benchmarks' own tool, around servers and processes that run already."""
        return Rig(
            folder=paths.STACK,
            database_url=self.database_url,
            broker_url=self.environment["SLUICE_CELERY_BROKER_URL"],
            bootstrap=self.bootstrap,
            inherited=self.environment,
        )

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self.rig.rows(sql, parameters)

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        return self.rig.value(sql, parameters)

    def manage(self, *words: str, stdin: str = "") -> str:
        """Run a management command; returns what it printed. Raises BenchmarkError."""
        return self.rig.manage(*words, stdin=stdin)

    def told(self, *words: str) -> tuple[int, str]:
        """Run a management command whose exit code says something; returns it and the text."""
        done = subprocess.run(
            [str(paths.python()), "manage.py", *words],
            cwd=paths.ROOT,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def until(self, holds: Callable[[], object], what: str, seconds: float) -> float:
        """Poll until it holds; returns the seconds it took. Raises BenchmarkError."""
        began = time.monotonic()
        self.rig.until(holds, what, seconds)
        return time.monotonic() - began

    def person(self) -> Person:
        """Somebody at the console, logged in as the administrator."""
        person = Person(self.address)
        person.log_in(*self.login)
        return person

    def queue(self, purpose: str, **fields: object) -> str:
        """A queue of its own with a topic of its own; returns the name of both."""
        name = f"drill-{purpose}-{self.suffix}"
        self.rig.topic(name)
        request = {"name": name, "topic": name, **fields}
        self.manage("bench_configure", stdin=json.dumps([request]))
        self.made.append(name)
        return name

    def effects(self, queue: str) -> dict[int, float]:
        """Seconds from sending to being applied, by the message's number. Raises when doubled."""
        found = self.rows(_EFFECTS, [queue])
        if any(times > 1 for _, _, times in found):
            raise BenchmarkError(f"messages of {queue} were applied twice")
        return {seq: seconds for seq, seconds, _ in found}

    def clear(self) -> None:
        """Switch off what was made. Its failures stay, for people to look at."""
        self.rig.write(_SWITCH_OFF, [self.made])
        self.rig.write(_REVOKE, [self.made])
        self.made.clear()


def running() -> Ground:
    """The stack of this checkout. Raises BenchmarkError when it cannot be drilled."""
    app = App(paths.STACK, as_left_in(paths.STACK))
    if not answers(app.address):
        raise BenchmarkError(
            f"Nothing answers at {app.address}; "
            "`SLUICE_INTEGRATIONS=sample,bench.app make run` starts the stack."
        )
    if INTEGRATION not in app.environment()["SLUICE_INTEGRATIONS"].split(","):
        raise BenchmarkError(
            f"The stack runs without {INTEGRATION}; "
            "`SLUICE_INTEGRATIONS=sample,bench.app make run` starts it anew with it."
        )
    return Ground(
        address=app.address,
        login=(keys.ADMINISTRATOR, keys.read_or_make(paths.STACK / "keys.json")[_PASSWORD]),
        database_url=app.servers.database_url,
        bootstrap=app.servers.kafka_bootstrap,
        environment=app.environment(),
    )
