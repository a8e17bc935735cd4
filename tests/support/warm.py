"""Child processes that begin warm: forked from one that has loaded the product already.

A crash test starts a process, kills it and starts the next; most of what a cold one does is
importing. So each environment that children are started in gets one process that has set up
Django and opened nothing, as the parent of a Celery pool has, and the children are forks of it.
They are processes of their own: pid, signals, output and exit status are real, and in some
variables the children of one parent may differ.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import django
from django.conf import settings
from django.db import connections

from config.celery import app
from crontasks.management.commands.run_services import LOADED, LOADED_FOR_CONSOLE

ROOT: Final = Path(__file__).resolve().parents[2]
# What a driver of Spark needs in the place of the console, where Spark is set up for it.
LOADED_FOR_SPARK: Final = ("crontasks.bulk.command", "pyspark.sql")
# So many environments are kept loaded at a time; each takes some 100 MB.
MOST: Final = 3
# What a child may print before somebody reads it, in bytes.
PIPE_SIZE: Final = 1 << 20
STOPPED: Final = b"stopped"
# Differs from test to test and decides nothing.
NOT_ITS_OWN: Final = "PYTEST_CURRENT_TEST"
# What a child may have of its own: nothing that is loaded has used it yet.
OWN: Final = (
    "SLUICE_CELERY_BROKER_URL",
    "SLUICE_DATABASE_URL",
    "SLUICE_DEPLOYMENT",
    "SLUICE_LEASE_SECONDS",
    "SLUICE_SPARK_MEMORY_MB",
    "TESTS_HANG",
    "TESTS_MUTATION",
)
_parents: "dict[str, _Parent]" = {}


class WarmChild:
    """A forked process, with those verbs of `subprocess.Popen` that tests use."""

    def __init__(self, wire: socket.socket, args: Sequence[str], stdout: IO[Any] | None) -> None:
        self.args = args
        self.stdout = stdout
        self.returncode: int | None = None
        self._wire = wire
        said = wire.recv(64)
        assert said, "the process that children are forked from did not come up"
        self.pid = int(said)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            while (word := self._next(timeout)) == STOPPED:
                pass
            self.returncode = int(word)
            self._wire.close()
        return self.returncode

    def wait_until_stopped(self, timeout: float = 60) -> None:
        """Wait for it to be stopped by a signal; see `os.WUNTRACED`."""
        word = self._next(timeout)
        assert word == STOPPED, f"it ended: {word!r}"

    def _next(self, timeout: float | None) -> bytes:
        self._wire.settimeout(timeout)
        try:
            return self._wire.recv(64)
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired(self.args, timeout or 0) from None

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout: float | None = None) -> tuple[Any, None]:
        self.wait(timeout)
        if self.stdout is None or self.stdout.closed:
            return None, None
        with self.stdout as said:
            return said.read(), None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Unlike `Popen.kill` it waits for the end, which SIGKILL brings at once."""
        self.send_signal(signal.SIGKILL)
        self.wait(30)


class _Parent:
    """The process in one environment from which the children are forked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.address = str(Path(tempfile.mkdtemp(prefix="warm-")) / "s")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.address)
            listener.listen()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(listener.fileno())],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def child(self, asked: Mapping[str, Any], out: int, errors: int) -> socket.socket:
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wire.connect(self.address)
        socket.send_fds(wire, [json.dumps(asked).encode()], [out, errors])
        return wire

    def end(self) -> None:
        """Let it go; children of it that live go on."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
        Path(self.address).unlink()
        Path(self.address).parent.rmdir()


def child(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    log: IO[bytes] | None = None,
    text: bool = False,
    errors: bool = True,
) -> WarmChild:
    """`python WORDS` in this environment: `-m` and a module, or a script.

    With a log it leads a group of its own and writes there; otherwise `stdout` is a pipe, into
    which its errors go as well unless `errors` is off.
    """
    parent = _parent_in(environment)
    own = {name: environment[name] for name in OWN if name in environment}
    asked = {"words": list(words), "own": own, "group": log is not None}
    if log is not None:
        return WarmChild(parent.child(asked, log.fileno(), log.fileno()), words, None)
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    with Path(os.devnull).open("wb") as nowhere, os.fdopen(theirs, "wb") as pipe:
        complaints = pipe if errors else nowhere
        wire = parent.child(asked, pipe.fileno(), complaints.fileno())
        return WarmChild(wire, words, os.fdopen(ours, "r" if text else "rb"))


def _parent_in(environment: Mapping[str, str]) -> _Parent:
    kept = {name: value for name, value in environment.items() if name != NOT_ITS_OWN}
    shared = {name: value for name, value in kept.items() if name not in OWN}
    key = json.dumps(shared, sort_keys=True)
    parent = _parents.pop(key, None) or _Parent(kept)
    # Put in last again: what was not asked for longest comes first.
    _parents[key] = parent
    if len(_parents) > MOST:
        _parents.pop(next(iter(_parents))).end()
    return parent


@atexit.register
def _end_all() -> None:
    while _parents:
        _parents.popitem()[1].end()


def main() -> None:
    """Set Django up, then fork a child for each request, until the tester has gone."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    django.setup()
    more = LOADED_FOR_SPARK if "SLUICE_SPARK_MASTER" in os.environ else LOADED_FOR_CONSOLE
    for name in (*LOADED, *more):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a thread would be missing in the children"
    gc.collect()
    gc.freeze()
    # Nobody waits for the processes that wait for the children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        wire, _ = listener.accept()
        if os.fork() == 0:
            break
        wire.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, places, _, _ = socket.recv_fds(wire, 1 << 16, 2)
    pid = os.fork()
    if pid != 0:
        _tell_its_end(wire, pid, places)
    wire.close()
    _become(json.loads(asked), places)


def _tell_its_end(wire: socket.socket, pid: int, places: Sequence[int]) -> None:
    for place in places:
        os.close(place)
    for standard in (0, 1, 2):
        os.close(standard)
    wire.send(str(pid).encode())
    _, status = os.waitpid(pid, os.WUNTRACED)
    while os.WIFSTOPPED(status):
        wire.send(STOPPED)
        _, status = os.waitpid(pid, os.WUNTRACED)
    wire.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(asked: dict[str, Any], places: Sequence[int]) -> None:
    if asked["group"]:
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, standard in zip((nothing, *places), (0, 1, 2), strict=True):
        os.dup2(place, standard)
        os.close(place)
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
    connections.settings["default"].update(settings.DATABASES["default"])
    app.conf.update(broker_url=settings.CELERY_BROKER_URL)


if __name__ == "__main__":
    main()
