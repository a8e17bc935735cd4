"""`manage.py run_services`: worker, relay and beat from one process that has loaded everything."""

import ctypes
import gc
import importlib
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections

from crontasks.celery_app import app

# What the services import once Django is set up; none of it opens a connection or starts a thread.
LOADED: Final = (
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.loops",
    "celery.worker.strategy",
    "crontasks.running.operating",
    "crontasks.tasks",
    "integration.runs.queues",
    "integration.runs.relay",
    "kombu.transport.redis",
)
LOADED_FOR_CONSOLE: Final = ("gunicorn.app.wsgiapp",)
# The worker begins alone: until it works, the others would only share its processors.
BEHIND_SECONDS: Final = 0.75
SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})
# A service that ends at once is not started in a circle.
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 15.0
LIVED_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
# PR_SET_PDEATHSIG of prctl(2): when this process is killed its services end as if asked to.
SIGNAL_OF_PARENTS_DEATH: Final = 1


class Service:
    """One process: its words for Python's `-m`, and how often it has ended lately."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self.words = words
        self.pid = 0
        self.due_at = self.began_at = float("-inf")
        self.pause = 0.0

    def ended(self) -> None:
        """Note its end, and when it begins again: later each time, unless it lived for long."""
        now = time.monotonic()
        is_steady = now - self.began_at > LIVED_SECONDS
        self.pause = FIRST_PAUSE_SECONDS if is_steady or not self.pause else self.pause * 2
        self.pause = min(self.pause, LONGEST_PAUSE_SECONDS)
        self.pid, self.due_at = 0, now + self.pause


class Command(BaseCommand):
    """Runs until it is asked to end; a service that ends by itself is started again."""

    help = (
        "Run worker, relay and beat, and the console with --bind. They share what they have "
        "loaded, so that they need less memory and start sooner than one by one. Each is a process "
        "of its own; one that ends is started again. SIGTERM ends all of them, each in its way."
    )

    # `migrate` has made them; they load every page, for which the services would wait.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--slots", type=int, default=4, help="of the worker (default: 4)")
        parser.add_argument("--name", default="worker", help="the worker's, unique on this host")
        parser.add_argument("--bind", help="run the console, too, at this address:port")
        parser.add_argument("--loglevel", default="INFO")

    def handle(self, *_: Any, **options: Any) -> None:
        services = [Service(name, words) for name, words in words_of(options)]
        pages = (settings.ROOT_URLCONF, *LOADED_FOR_CONSOLE) if options["bind"] else ()
        load(pages)
        if missing_tables():
            # A deployment may migrate meanwhile: the services wait for that.
            self.stderr.write("Tables are missing in the database: run `python manage.py migrate`.")
        connections.close_all()
        if threading.active_count() > 1:
            raise CommandError("A thread is running already; it would be missing in the services.")
        gc.collect()
        # What lives now is never looked at again, and so stays shared.
        gc.freeze()
        gc.enable()  # manage.py has disabled it
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for service in services[1:]:
            service.due_at = time.monotonic() + BEHIND_SECONDS
        supervise(services)


def load(more: Sequence[str]) -> None:
    """Import what services need and `more`, and make what each would else make for itself.

    That is Celery's tasks, and what Django finds out about all models at its first query. Once
    every slot had run cron tasks, it was 10 MB of 425, all processes together.
    """
    for name in (*LOADED, *more):
        importlib.import_module(name)
    # Where a library brings it, each slot has it parse the one line of C that names a system call.
    with suppress(ImportError):
        importlib.import_module("cffi.cparser")
    app.finalize()
    for model in apps.get_models(include_auto_created=True):
        model._meta.get_fields(include_hidden=True)
    instances = apps.get_model("crontasks.CronInstance").objects
    query = instances.filter(queue__provider__name="").select_related("queue").query
    query.get_compiler(settings.SLUICE_DATABASE).as_sql()


def missing_tables() -> list[str]:
    """The tables of Sluice that the database is without; empty where it does not answer."""
    connection = connections[settings.SLUICE_DATABASE]
    try:
        present = set(connection.introspection.table_names(include_views=True))
    except DatabaseError:
        return []  # the services say so, and wait for it
    configs = map(apps.get_app_config, ("integration", "crontasks"))
    ours = [model for config in configs for model in config.get_models()]
    return sorted({model._meta.db_table for model in ours if model._meta.managed} - present)


def words_of(options: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Each service and its command, as deploy/ and docs/install.md give them one by one."""
    level = ("--loglevel", options["loglevel"])
    celery = ("celery", "-A", settings.SLUICE_APP)
    worker = ("-Q", "celery", "-c", str(options["slots"]), "-n", f"{options['name']}@%h")
    # It has one task for as long as it lives, and so needs no process beside the one that waits.
    relay = ("-Q", "relay", "-P", "solo", "-c", "1", "-n", "relay@%h")
    services = [
        ("worker", (*celery, "worker", *worker, *level)),
        ("relay", (*celery, "worker", *relay, *level)),
        ("beat", (*celery, "beat", "--pidfile=", *level)),
    ]
    if options["bind"]:
        console = (
            *("gunicorn", _web_application(), "--preload", "--workers", "2", "--threads", "4"),
            *("--worker-class", "console.server.worker.BufferedWorker"),
            *("--no-control-socket", "--bind", options["bind"]),
        )
        services.append(("web", console))
    return services


def _web_application() -> str:
    """The project's WSGI application, as gunicorn wants it named."""
    module, _, name = settings.WSGI_APPLICATION.rpartition(".")
    return f"{module}:{name}"


def supervise(services: Sequence[Service]) -> None:
    """Keep them running until a signal asks to end; returns when all have ended."""
    while not _is_asked_to_end(services):
        now = time.monotonic()
        for service in services:
            if not service.pid and service.due_at <= now:
                _start(service)
    for service in services:
        if service.pid:
            os.kill(service.pid, signal.SIGTERM)
    while any(service.pid for service in services):
        signal.sigtimedwait(SIGNALS, LOOK_SECONDS)
        _bury(services)


def _is_asked_to_end(services: Sequence[Service]) -> bool:
    """Wait for a signal, or until a service is due; bury those that have ended."""
    now = time.monotonic()
    due = (service.due_at - now for service in services if not service.pid)
    received = signal.sigtimedwait(SIGNALS, max(0.0, min(LOOK_SECONDS, *due, LOOK_SECONDS)))
    _bury(services)
    return received is not None and received.si_signo != signal.SIGCHLD


def _bury(services: Sequence[Service]) -> None:
    """Take note of those that have ended: one signal may tell of several."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        for service in services:
            if service.pid == pid:
                code = os.waitstatus_to_exitcode(status)
                sys.stderr.write(f"{service.name} has ended with status {code}\n")
                service.ended()


def _start(service: Service) -> None:
    service.began_at = time.monotonic()
    parent = os.getpid()
    service.pid = os.fork()
    if not service.pid:
        _become(service, parent)


def _become(service: Service, parent: int) -> NoReturn:
    """Turn a forked process into the service, as `python -m` would have begun it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    ctypes.CDLL(None).prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)  # it was killed before that was said
    module, *words = service.words
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)
