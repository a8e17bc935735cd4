"""People register while the database is away: nobody is turned away, each is registered once.

A website puts registrations into Kafka and says yes. A worker of the example's own reads them, and
reaches the database through a gate that can be shut, so that nothing else here loses its database.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from django.conf import settings
from django.db import Error, connections
from django.db.models import Count

from console.setup.services import ServiceForm
from integration.kafka.client import connection, new_producer
from integration.models import EnterpriseService, Provider, Queue
from integration.runs.queues import run_queue
from integration.store.sessions import alias
from sample import names
from sample.entering import entered, entered_queue
from sample.models import Registration

ACCEPTED: Final = 202
TURNED_AWAY: Final = 503
EVERY_SECONDS: Final = 0.1
AROUND_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 0.2
CHUNK: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of everybody: the website's answers, and what the database holds afterwards."""

    accepted: int
    turned_away: int
    registered: int
    doubled: int
    away_seconds: float
    while_away: int

    @property
    def is_right(self) -> bool:
        sound = not self.turned_away and not self.doubled
        return sound and self.registered == self.accepted

    def __str__(self) -> str:
        return (
            f"{self.accepted} people registered, {self.while_away} of them while the database was "
            f"away for {self.away_seconds:.1f} s. {self.turned_away} were turned away. "
            f"{self.registered} are registered now, {self.doubled} of them more than once."
        )


class Gate:
    """Forwards connections to the database; shut, it cuts them and lets nobody in."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self._open = threading.Event()
        self._open.set()
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if not self._open.is_set():
                return
            with socket.create_connection(self._to) as server:
                ends = {client: server, server: client}
                while self._open.is_set() and not self._over.is_set():
                    for ready in select.select([*ends], [], [], 0.1)[0]:
                        sent = ready.recv(CHUNK)
                        if not sent:
                            return
                        ends[ready].sendall(sent)


class Website:
    """Takes registrations as long as Kafka takes them, and asks no database."""

    def __init__(self, queue: Queue) -> None:
        self._topic = queue.topic
        self._producer = new_producer(connection(queue.provider), None, {})
        self.answers: list[int] = []
        # Whoever comes while one example is played has a name of its own.
        self.visitor = f"visitor-{uuid.uuid4().hex[:8]}"

    def register(self, email: str) -> int:
        """Return the answer that the person gets: yes once the registration is in Kafka."""
        answers: list[int] = []

        def told(error: object, _message: object) -> None:
            answers.append(ACCEPTED if error is None else TURNED_AWAY)

        value = json.dumps({"email": email}).encode()
        self._producer.produce(self._topic, value, email.encode(), on_delivery=told)
        self._producer.flush()
        self.answers += answers or [TURNED_AWAY]
        return self.answers[-1]

    @contextmanager
    def visited(self) -> Iterator[None]:
        """Let a person register every tenth of a second, as long as the block lasts."""
        over = threading.Event()
        visits = threading.Thread(target=self._visits, args=(over,))
        visits.start()
        try:
            yield
        finally:
            over.set()
            visits.join()

    def _visits(self, over: threading.Event) -> None:
        while not over.wait(EVERY_SECONDS):
            self.register(f"{self.visitor}-{len(self.answers)}@example.org")


def plant() -> Queue:
    """Return the example's queue, with its service, as people would set them up.

    Raises IntegrationError, ValidationError; Provider.DoesNotExist without the sample.
    """
    if not EnterpriseService.objects.filter(interface=names.REGISTRATION).exists():
        about = "People who register on the website"
        entered(ServiceForm, interface=names.REGISTRATION, description=about)
    queue = Queue.objects.select_related("provider").filter(name=names.REGISTRATIONS).first()
    if queue is not None:
        return queue
    return entered_queue(
        Provider.objects.get(name=names.PROVIDER),
        names.REGISTRATIONS_TOPIC,
        name=names.REGISTRATIONS,
        description="Registrations of the website; nobody waits for the database",
        kind=Queue.Kind.CONTINUOUS,
        partitions=1,
        default_service=EnterpriseService.objects.get(interface=names.REGISTRATION),
    )


def play(away_seconds: float) -> Account:
    """Let people register before, while and after the database is away; then take account."""
    website = Website(plant())
    people = Registration.objects.filter(email__startswith=website.visitor)
    database = connections[alias()].settings_dict
    host, port = database["HOST"] or "127.0.0.1", int(database["PORT"] or 5432)
    with Gate(host, port) as gate, _worker(gate):
        with website.visited():
            _wait_for(people.exists)
            gate.shut()
            before = len(website.answers)
            time.sleep(away_seconds)
            while_away = len(website.answers) - before
            gate.open()
            time.sleep(AROUND_SECONDS)
        accepted = website.answers.count(ACCEPTED)
        _wait_for(lambda: people.count() >= accepted)
    times = people.order_by().values("email").annotate(times=Count("pk"))
    return Account(
        accepted=accepted,
        turned_away=len(website.answers) - accepted,
        registered=len(times),
        doubled=sum(1 for one in times if one["times"] > 1),
        away_seconds=away_seconds,
        while_away=while_away,
    )


def work(port: int, database: str) -> None:
    """Run the example's queue until the process is ended, whatever becomes of the database.

    Through the gate at this port, before any connection is made.
    """
    where = {"HOST": "127.0.0.1", "PORT": port, "NAME": database}
    connections[alias()].settings_dict.update(where)
    while True:
        with contextlib.suppress(Error):
            run_queue(Queue.objects.get(name=names.REGISTRATIONS).pk)
        time.sleep(AGAIN_SECONDS)


def _wait_for(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_done() and time.monotonic() < until:
        time.sleep(0.05)


@contextmanager
def _worker(gate: Gate) -> Iterator[None]:
    """A process that works on the example's queue, and reaches the database by the gate only."""
    database = str(connections[alias()].settings_dict["NAME"])
    command = ["manage.py", "sample_registration", "--work", str(gate.port), database]
    worker = subprocess.Popen([sys.executable, *command], cwd=settings.BASE_DIR)  # noqa: S603 - ours
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(30)
