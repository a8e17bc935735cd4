"""The process that warm children are forked from, and how they live; see `tests.support.warm`.

`python -m tests.support.warm_parent FD`: it listens there, and goes when its standard input ends.
"""

import atexit
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import django
from django.conf import settings
from django.db import connections

from config.celery import app
from crontasks.management.commands.run_services import LOADED_FOR_CONSOLE, load

# What a driver of Spark needs in the place of the console, where Spark is set up for it.
LOADED_FOR_SPARK: Final = ("crontasks.bulk.command", "pyspark.sql")
STOPPED: Final = b"stopped"
# What a child may have of its own: nothing that is loaded has used it yet.
OWN: Final = (
    "SLUICE_ADMIN_PASSWORD",
    "SLUICE_CELERY_BROKER_URL",
    "SLUICE_DATABASE_URL",
    "SLUICE_DEPLOYMENT",
    "SLUICE_LEASE_SECONDS",
    "SLUICE_OTHER_DATABASES",
    "SLUICE_SPARK_MEMORY_MB",
    "TESTS_HANG",
    "TESTS_MUTATION",
)


def main() -> None:
    """Set Django up, then fork a child for each request, until the tester has gone."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    django.setup()
    pages = ("config.urls", *LOADED_FOR_CONSOLE)
    more = LOADED_FOR_SPARK if "SLUICE_SPARK_MASTER" in os.environ else pages
    load(more)
    assert threading.active_count() == 1, "a thread would be missing in the children"
    gc.collect()
    gc.freeze()
    _Nursery(listener).serve()


class _Nursery:
    """What a parent does: it forks, and tells each child's tester how that ends.

    Without a process for each child that only waits for it: a fork of this one and its end take
    longer than most of what children do.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._wires: dict[int, socket.socket] = {}
        self._ended, self._wakes = os.pipe()
        for end in (self._ended, self._wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Until the tester has gone, and then until the last child has."""
        wanted: list[Any] = [self._listener, sys.stdin, self._ended]
        while self._wires or sys.stdin in wanted:
            ready, _, _ = select.select(wanted, [], [])
            if self._ended in ready:
                self._tell_ends()
            if sys.stdin in ready:
                wanted = [self._ended]
                self._listener.close()
            elif self._listener in ready:
                self._bear()

    def _bear(self) -> None:
        wire, _ = self._listener.accept()
        asked, places, _, _ = socket.recv_fds(wire, 1 << 16, 2)
        pid = os.fork()
        if pid == 0:
            self._leave(wire)
            _live(json.loads(asked), places)
        for place in places:
            os.close(place)
        self._wires[pid] = wire
        _say(wire, pid)

    def _leave(self, wire: socket.socket) -> None:
        """Let go, in a child, of what is its parent's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (self._listener, wire, *self._wires.values()):
            other.close()
        os.close(self._ended)
        os.close(self._wakes)

    def _tell_ends(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._ended, 1 << 10):
                pass
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return
                if os.WIFSTOPPED(status):
                    _say(self._wires[pid], STOPPED.decode())
                else:
                    with self._wires.pop(pid) as wire:
                        _say(wire, os.waitstatus_to_exitcode(status))


def _say(wire: socket.socket, word: int | str) -> None:
    # Who asked for the child may have gone meanwhile.
    with suppress(OSError):
        wire.send(str(word).encode())


def _live(asked: dict[str, Any], places: Sequence[int]) -> NoReturn:
    """Be the child; end as the interpreter would, but for what it would take apart.

    Module by module it would write to all the memory that it has in common with its parent.
    """
    status = 0
    try:
        _become(asked, places)
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else int(e.code is not None)
        if isinstance(e.code, str):
            sys.stderr.write(f"{e.code}\n")
    except Exception:  # noqa: BLE001 - the interpreter, too, would only print what it is
        status = 1
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


def _become(asked: dict[str, Any], places: Sequence[int]) -> None:
    if asked["group"]:
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, standard in zip((nothing, *places), (0, 1, 2), strict=True):
        os.dup2(place, standard)
        os.close(place)
    # A crash of a library says where it was.
    faulthandler.enable()
    _take_own(asked["own"])
    first, *others = asked["words"]
    if first == "-m":
        name, *others = others
        sys.argv = [name, *others]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *others]
        runpy.run_path(first, run_name="__main__")


def _take_own(values: Mapping[str, str]) -> None:
    """Read the settings again, with the child's own values in the place of its parent's."""
    for name in OWN:
        os.environ.pop(name, None)
    os.environ.update(values)
    fresh = vars(importlib.reload(sys.modules[settings.SETTINGS_MODULE]))
    for name in filter(str.isupper, fresh):
        setattr(settings, name, fresh[name])
    for alias, database in connections.configure_settings(settings.DATABASES).items():
        connections.settings.setdefault(alias, {}).update(database)
    app.conf.update(broker_url=settings.SLUICE_CELERY_BROKER_URL)


if __name__ == "__main__":
    main()
