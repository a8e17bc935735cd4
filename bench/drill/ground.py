"""What a drill stands on: the stack that `make run` started in this checkout."""

import json
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

    def queue(self, kind: str, **fields: object) -> str:
        """A queue of its own with a topic of its own; returns the name of both."""
        name = f"drill-{kind}-{self.suffix}"
        self.rig.topic(name)
        request = {"name": name, "topic": name, **fields}
        self.manage("bench_configure", stdin=json.dumps([request]))
        return name


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
