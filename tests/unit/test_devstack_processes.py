"""Processes of devstack: found again by their pid file, ended gently or not, never mistaken."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devstack import proc
from devstack.supervise import Command, Process

pytestmark = pytest.mark.fast

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)"
)


def start(folder: Path, program: str) -> Process:
    process = Process("sleeper", folder)
    process.spawn(
        Command(argv=[sys.executable, "-c", program], environment=os.environ, folder=folder)
    )
    while "up" not in (process.log.read_text() if process.log.exists() else ""):
        assert process.is_alive(), process.last_line()
    return process


def test_a_started_process_is_found_again_and_stopped_by_its_pid_file(tmp_path: Path) -> None:
    started = start(tmp_path, SLEEPER)
    found = Process("sleeper", tmp_path)
    assert found.pid == started.pid
    assert found.stop(grace_seconds=10) is True
    assert not found.is_alive()
    assert not found.pid_file.exists()


def test_a_process_that_ignores_the_request_is_ended_by_force(tmp_path: Path) -> None:
    process = start(tmp_path, STUBBORN)
    assert process.stop(grace_seconds=0.1) is False
    assert not process.is_alive()


# Ends at once when asked; its child takes a second longer, or does not listen at all.
PARENT = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}])
while not os.path.exists("listens"):
    time.sleep(0.01)
signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), os._exit(0)))
print("up", child.pid, flush=True)
time.sleep(600)
"""
LINGERING = (
    "import os, signal, time; "
    "signal.signal(signal.SIGTERM, lambda *_: ({ending})); open('listens', 'w').close(); "
    "[time.sleep(1) for _ in range(600)]"
)


@pytest.mark.parametrize(
    ("ending", "grace_seconds", "in_time"),
    [("time.sleep(0.5), os._exit(0)", 10, True), ("None", 0.3, False)],
    ids=["slow", "deaf"],
)
def test_a_stop_waits_for_children_that_outlive_their_parent(
    tmp_path: Path, ending: str, grace_seconds: float, in_time: bool
) -> None:
    process = start(tmp_path, PARENT.format(child=LINGERING.format(ending=ending)))
    child = int(process.last_line().split()[1])

    assert process.stop(grace_seconds=grace_seconds) is in_time
    assert proc.started(child) is None


def test_a_process_that_was_asked_to_end_is_known_as_ending(tmp_path: Path) -> None:
    process = start(tmp_path, STUBBORN)
    assert not process.is_ending
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(process.stop, grace_seconds=0.5)
        while not Process("sleeper", tmp_path).is_ending:
            assert not stopping.done()
        assert stopping.result() is False
    assert not process.is_ending


def test_a_paused_process_can_be_stopped(tmp_path: Path) -> None:
    process = start(tmp_path, SLEEPER)
    process.pause()
    process.stop(grace_seconds=10)
    assert not process.is_alive()


def test_a_pid_that_now_belongs_to_another_process_is_never_signalled(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as stranger:
        process = Process("kafka", tmp_path)
        kept = {"pid": stranger.pid, "started": "another time"}
        process.pid_file.write_text(json.dumps(kept))

        assert process.pid is None
        process.stop(grace_seconds=0)
        process.kill()

        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("content", ["", "12", "{}", '{"pid": "x", "started": "y"}', "[1]"])
def test_a_damaged_pid_file_means_that_nothing_runs(tmp_path: Path, content: str) -> None:
    process = Process("kafka", tmp_path)
    process.pid_file.write_text(content)
    assert process.pid is None


def test_killing_ends_the_children_too(tmp_path: Path) -> None:
    parent = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); time.sleep(600)"
    )
    process = start(tmp_path, parent)
    pid = process.pid
    assert pid is not None
    family = proc.tree(pid)
    assert len(family) == 2
    process.kill()
    # The orphan is collected by init, or stays as a zombie where there is none that does it.
    assert [member for member in family if proc.started(member)] == []


def test_a_zombie_does_not_count_as_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert proc.started(child.pid) is None
    assert proc.started(os.getpid()) is not None


def test_a_signal_to_a_process_that_just_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    Process.send(signal.SIGTERM, child.pid)
