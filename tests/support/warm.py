"""Child processes that begin warm: forked from one that has loaded the product already.

A crash test starts a process, kills it and starts the next; most of what a cold one does is
importing. So each environment that children are started in gets one process that has set up
Django and opened nothing, as the parent of a Celery pool has, and the children are forks of it.
They are processes of their own: pid, signals, output and exit status are real, and in some
variables the children of one parent may differ.
"""

import atexit
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from tests.support.warm_parent import OWN, STOPPED

ROOT: Final = Path(__file__).resolve().parents[2]
# So many environments are kept loaded at a time; each takes some 100 MB.
MOST: Final = 3
# What a child may print before somebody reads it, in bytes.
PIPE_SIZE: Final = 1 << 20
# Differs from test to test and decides nothing.
NOT_ITS_OWN: Final = "PYTEST_CURRENT_TEST"
_parents: "dict[str, _Parent]" = {}
# Those that were let go: each ends with the last of its children.
_retired: list[subprocess.Popen[bytes]] = []


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
        if word != STOPPED:
            self.returncode = int(word)
            self._wire.close()
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

    def expect_line(self, line: str) -> None:
        """Read the next line; where it is another, tell what else it says and how it ended."""
        assert self.stdout is not None
        told = self.stdout.readline()
        if told != f"{line}\n":
            with suppress(subprocess.TimeoutExpired):
                self.wait(5)
            self.kill()
            rest = self.stdout.read()
            raise AssertionError(f"not {line!r}; status {self.returncode}: {told}{rest}")

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
                [sys.executable, "-m", "tests.support.warm_parent", str(listener.fileno())],
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
        """Let it go; children of it that live go on, and it waits for their ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        Path(self.address).unlink()
        Path(self.address).parent.rmdir()
        _retired.append(self.process)


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
    for process in _retired:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
