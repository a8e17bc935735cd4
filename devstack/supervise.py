"""Starts processes that outlive us, remembers them by pid and birth, and ends only those."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack import errors, proc, remembered

POLL_SECONDS = 0.02
LARGEST_LOG_BYTES = 20_000_000
KILLED_WITHIN_SECONDS = 10.0


@dataclass(frozen=True)
class Account:
    """An unprivileged user and its group, as numbers."""

    user: int
    group: int


def identity(account: Account | None) -> dict[str, Any]:
    """Arguments of subprocess that run it as that account alone; as ourselves without one."""
    if account is None:
        return {}
    return {"user": account.user, "group": account.group, "extra_groups": []}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: arguments, environment, folder, and an unprivileged account, if need be."""

    argv: Sequence[str | Path]
    environment: Mapping[str, str]
    folder: Path
    account: Account | None = None


def carry_out(command: Command, log: Path, stdin: str = "") -> bool:
    """Run it to its end, what it says appended to the log; returns whether it succeeded.

    `stdin` is its input.
    """
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                [str(part) for part in command.argv],
                input=stdin.encode(),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=command.folder,
                env=dict(command.environment),
                check=False,
                **identity(command.account),
            )
        except OSError as error:
            output.write(f"{command.argv[0]}: {error}\n".encode())
            return False
    return done.returncode == 0


class Process:
    """One process that we start and may find again later, through `<folder>/<name>.pid`.

    The pid file also holds the time of birth: a pid that the system has given to another
    program is never signalled.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.pid_file = folder / f"{name}.pid"
        self.log = folder / f"{name}.log"

    @property
    def pid(self) -> int | None:
        """The pid while the process lives, else None."""
        stored = remembered.read(self.pid_file)
        try:
            pid, mark = int(stored["pid"]), str(stored["started"])
        except (ValueError, KeyError, TypeError):
            return None
        return pid if self._lives(pid, mark) else None

    def is_alive(self) -> bool:
        return self.pid is not None

    def spawn(self, command: Command) -> int:
        """Start it in a session of its own, its output appended to the log; return the pid."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [str(part) for part in command.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=command.folder,
                env=dict(command.environment),
                start_new_session=True,
                **identity(command.account),
            )
        # The process is meant to outlive us and is waited for by pid; without this Popen would
        # warn about it when it is collected.
        child.returncode = 0
        self.remember(child.pid)
        return child.pid

    def rotate_log(self) -> None:
        """Put a log that has grown large aside; the one put aside before is lost."""
        if self.log.exists() and self.log.stat().st_size > LARGEST_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))

    def remember(self, pid: int, *, is_ending: bool = False) -> None:
        """Write the pid file for a process that runs already."""
        facts = {
            "pid": pid,
            "started": proc.started(pid),
            "name": self.name,
            "is_ending": is_ending,
        }
        partial = self.pid_file.with_suffix(".new")
        partial.write_text(json.dumps(facts) + "\n")
        partial.replace(self.pid_file)

    @property
    def is_ending(self) -> bool:
        """Return whether it still lives, asked to stop: the asker did not wait for its end."""
        return self.is_alive() and bool(remembered.read(self.pid_file).get("is_ending"))

    def stop(self, *, with_signal: signal.Signals = signal.SIGTERM, grace_seconds: float) -> bool:
        """Ask it to end, and end it and its children by force after the grace.

        Returns whether all of them ended without force. A child that outlives its parent is
        waited for, too: it may still hold the port or the folder that the next start wants.
        """
        pid = self.pid
        if pid is None:
            self.pid_file.unlink(missing_ok=True)
            return True
        # Before the signal: a start that meets it dying must not take it for a running one.
        self.remember(pid, is_ending=True)
        family = self._family(pid)
        self.send(with_signal, pid)
        self.send(signal.SIGCONT, pid)
        ended = self._all_end_within(grace_seconds, family)
        if not ended:
            self._kill_all(family | self._family(pid))
        self.pid_file.unlink(missing_ok=True)
        return ended

    def kill(self) -> None:
        """End it and all its children with SIGKILL, as a crash would; return when all are gone."""
        pid = self.pid
        if pid is None:
            return
        self._kill_all(self._family(pid))

    def pause(self) -> None:
        """Stop it and all its children where they stand (SIGSTOP)."""
        self._send_to_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it and all its children go on (SIGCONT)."""
        self._send_to_all(signal.SIGCONT)

    def last_line(self) -> str:
        """Return the last line of the log that says something, for a message to a person."""
        try:
            text = self.log.read_bytes()[-4000:].decode(errors="replace")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")

    @staticmethod
    def _family(pid: int) -> dict[int, str]:
        """The process and its descendants that live now, each with its birth."""
        return {member: mark for member in proc.tree(pid) if (mark := proc.started(member))}

    def _kill_all(self, family: Mapping[int, str]) -> None:
        """Signal only members that are still the same processes; raises Problem DID_NOT_STOP."""
        for member, mark in family.items():
            if self._lives(member, mark):
                self.send(signal.SIGKILL, member)
        if not self._all_end_within(KILLED_WITHIN_SECONDS, family):
            raise errors.Problem(
                "DID_NOT_STOP",
                f"{self.name} (process {next(iter(family))}) is still there after SIGKILL.",
                "It waits for the kernel, most likely for a disk; look at the machine before going "
                "on.",
            )

    def _all_end_within(self, seconds: float, family: Mapping[int, str]) -> bool:
        until = time.monotonic() + seconds
        while any(self._lives(member, mark) for member, mark in family.items()):
            if time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    @staticmethod
    def _lives(pid: int, mark: str) -> bool:
        proc.reap(pid)
        return proc.started(pid) == mark

    def _send_to_all(self, with_signal: signal.Signals) -> None:
        pid = self.pid
        for member in proc.tree(pid) if pid else []:
            self.send(with_signal, member)

    @staticmethod
    def send(with_signal: signal.Signals, pid: int) -> None:
        try:
            os.kill(pid, with_signal)
        except ProcessLookupError:
            return  # It ended between our look and our signal.
