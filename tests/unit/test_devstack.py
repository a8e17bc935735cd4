"""The parts of devstack that need no server: ports, pid files, versions, stamps, problems."""

import ast
import inspect
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from devstack import (
    accounts,
    chromium,
    jars,
    java,
    keys,
    paths,
    pgwire,
    ports,
    postgres,
    postgres_programs,
    problems,
    proc,
    progress,
    stamps,
)
from devstack.kafka import cluster_id, properties
from devstack.supervise import Account, Command, Process
from tests.support import docker

pytestmark = pytest.mark.fast

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)"
)


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


# Ports


def test_a_remembered_port_is_kept(tmp_path: Path) -> None:
    first = ports.assign(tmp_path / "ports.json", ["kafka", "postgres"], variables={})
    again = ports.assign(tmp_path / "ports.json", ["kafka", "postgres"], variables={})
    assert first == again
    assert len(set(first.values())) == 2


def test_a_remembered_port_that_a_stranger_took_is_given_up(tmp_path: Path, busy_port: int) -> None:
    file = tmp_path / "ports.json"
    file.write_text(json.dumps({"kafka": busy_port, "web": 1}))
    chosen = ports.assign(file, ["kafka"], variables={})
    assert chosen["kafka"] != busy_port
    assert json.loads(file.read_text()) == {"web": 1, **chosen}


def test_a_server_that_runs_keeps_its_port(tmp_path: Path, busy_port: int) -> None:
    file = tmp_path / "ports.json"
    file.write_text(json.dumps({"kafka": busy_port}))
    assert ports.assign(file, ["kafka"], running=["kafka"], variables={}) == {"kafka": busy_port}


def test_a_port_set_by_hand_that_is_busy_is_a_problem_that_names_the_variable(
    tmp_path: Path, busy_port: int
) -> None:
    variables = {"DEVSTACK_POSTGRES_PORT": str(busy_port)}
    with pytest.raises(problems.Problem) as met:
        ports.assign(tmp_path / "ports.json", ["postgres"], variables=variables)
    assert met.value.code == "PORT_BUSY"
    assert str(busy_port) in met.value.what
    assert "DEVSTACK_POSTGRES_PORT" in met.value.remedy


@pytest.mark.parametrize("written", ["eighty", "0", "65536", "-1"])
def test_a_port_set_by_hand_has_to_be_one(tmp_path: Path, written: str) -> None:
    with pytest.raises(problems.Problem) as met:
        ports.assign(tmp_path / "ports.json", ["web"], variables={"DEVSTACK_WEB_PORT": written})
    assert met.value.code == "BAD_PORT"


def test_a_preferred_port_is_taken_when_it_is_free_and_left_when_it_is_not(
    tmp_path: Path, busy_port: int
) -> None:
    free = ports.choose()
    wish = {"web": free}
    assert ports.assign(tmp_path / "a.json", ["web"], preferred=wish, variables={}) == wish
    wish = {"web": busy_port}
    assert ports.assign(tmp_path / "b.json", ["web"], preferred=wish, variables={}) != wish


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kafka": "many"}'])
def test_a_damaged_file_of_ports_is_made_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "ports.json"
    file.write_text(content)
    assert ports.assign(file, ["kafka"], variables={})["kafka"] in ports.CHOICES


# Processes


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


# Versions


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21.0.8.2-ea"', 21),
        ("bash: java: command not found", 0),
        ("", 0),
    ],
)
def test_java_tells_its_version(said: str, major: int) -> None:
    assert java.parse_version(said) == major


def program(folder: Path, said: str) -> Path:
    made = folder / "bin" / "java"
    made.parent.mkdir(parents=True)
    made.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    made.chmod(0o755)
    return made


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = program(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find() == wanted


def test_an_old_java_is_named_with_its_version(tmp_path: Path) -> None:
    old = program(tmp_path, 'openjdk version "11.0.2"')
    with pytest.raises(problems.Problem) as met:
        java.find([old])
    assert met.value.code == "JAVA_TOO_OLD"
    assert f"{old} is Java 11" in met.value.what


def test_no_java_is_a_problem_with_a_remedy() -> None:
    with pytest.raises(problems.Problem) as met:
        java.find([Path("/nowhere/java")])
    assert met.value.code == "JAVA_MISSING"
    assert "JAVA_HOME" in met.value.remedy


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", 15),
        ("postgres (PostgreSQL) 18.6", 18),
        ("postgres (PostgreSQL) 19devel", 19),
        ("nonsense", 0),
    ],
)
def test_postgres_tells_its_version(said: str, major: int) -> None:
    assert postgres_programs.parse_version(said) == major


def test_data_of_a_postgres_that_is_not_here_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(problems.Problem) as met:
        postgres_programs.programs_for(tmp_path / "data", None)
    assert met.value.code == "OTHER_POSTGRES"


@pytest.mark.parametrize(("made_by", "chosen"), [(None, 17), (17, 17), (15, 15), (16, None)])
def test_the_programs_that_made_the_data_open_them(made_by: int | None, chosen: int | None) -> None:
    here = [postgres_programs.Programs(Path("/usr"), major) for major in (17, 15)]
    found = postgres_programs.fitting(made_by, here)
    assert (found.major if found else None) == chosen


# Where the database's files may lie

SOMEBODY = Account(54_321, 54_321)


def test_data_stay_in_the_folder_when_the_account_may_go_there(tmp_path: Path) -> None:
    assert postgres.place_for(tmp_path, None) == tmp_path.resolve() / "postgres"


def test_data_move_out_of_a_closed_home(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    place = postgres.place_for(closed / "checkout" / ".devstack", SOMEBODY)
    assert place.parent == postgres.SHARED_DATA
    assert place != postgres.place_for(closed / "another" / ".devstack", SOMEBODY)


def test_a_link_in_place_of_the_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "place").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(problems.Problem) as met:
        accounts.own_folder(tmp_path / "place", None)
    assert met.value.code == "FOREIGN_FOLDER"


# Jars, stamps, keys


def test_jars_that_are_changed_missing_or_unknown_are_named(tmp_path: Path) -> None:
    (tmp_path / "same.jar").write_bytes(b"same")
    (tmp_path / "changed.jar").write_bytes(b"other")
    (tmp_path / "unknown.jar").write_bytes(b"")
    same = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"
    locked = {"same.jar": same, "changed.jar": same, "missing.jar": same}
    assert jars.differences(locked, tmp_path) == ["changed.jar", "missing.jar", "unknown.jar"]


def test_both_versions_of_the_kafka_client_are_locked_apart() -> None:
    assert "kafka-clients-4.3.1.jar" in jars.checksums("kafka")
    assert "kafka-clients-3.9.2.jar" in jars.checksums("spark")
    assert len(jars.checksums("kafka")) == 46
    assert len(jars.checksums("spark")) == 5


def test_a_step_is_done_again_only_when_a_file_has_changed(tmp_path: Path) -> None:
    source = tmp_path / "requirements.txt"
    source.write_text("a==1")
    stamp = tmp_path / "stamp"
    stamps.mark_done(stamp, stamps.digest([source]))
    assert stamps.is_done(stamp, stamps.digest([source]))
    source.write_text("a==2")
    assert not stamps.is_done(stamp, stamps.digest([source]))


def test_keys_are_made_once_and_for_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    made = keys.read_or_make(file)
    assert keys.read_or_make(file) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_unreadable_file_of_keys_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("{")
    with pytest.raises(json.JSONDecodeError):
        keys.read_or_make(file)
    assert file.read_text() == "{"


def test_the_encryption_key_is_one_that_fernet_takes() -> None:
    coder = Fernet(keys.encryption_key())
    assert coder.decrypt(coder.encrypt(b"secret")) == b"secret"


# Kafka


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    made = [cluster_id() for _ in range(500)]
    assert all(len(one) == 22 and not one.startswith("-") for one in made)


def test_kafka_listens_on_loopback_only() -> None:
    found = properties(port=1, controller_port=2, log_dirs=Path("/x"))
    for name in ("listeners", "advertised.listeners"):
        hosts = [address.split("//")[1].split(":")[0] for address in found[name].split(",")]
        assert set(hosts) == {"127.0.0.1"}


# What is said


def every_problem() -> list[problems.Problem]:
    values = {int: 7, str: "Kafka", Path: Path("/some/where"), list[str]: ["a.jar"]}
    made = []
    for name, factory in inspect.getmembers(problems, inspect.isfunction):
        wanted = inspect.signature(factory).parameters.values()
        made.append(factory(*(values[parameter.annotation] for parameter in wanted)))
        assert name.islower()
    return made


@pytest.mark.parametrize("problem", every_problem(), ids=lambda problem: problem.code)
def test_a_problem_is_one_sentence_and_what_to_do(problem: problems.Problem) -> None:
    assert problem.what[0].isupper()
    assert problem.what.endswith((".", ")."))
    assert "\n" not in problem.what + problem.remedy
    assert len(problem.remedy.split()) >= 4


def test_problem_codes_are_unique() -> None:
    codes = [problem.code for problem in every_problem()]
    assert len(codes) == len(set(codes))


def test_an_old_python_can_read_the_entrance() -> None:
    text = (paths.ROOT / "devstack" / "__main__.py").read_text()
    ast.parse(text, feature_version=(3, 7))
    refusal = text.split("from devstack")[0].replace("sys.version_info", "(3, 9, 1)")
    with pytest.raises(SystemExit, match=r"this is Python 3\.9\.\n"):
        exec(compile(refusal, "entrance", "exec"), {})  # noqa: S102 - our own file, cut


def test_a_finished_step_is_one_line_with_its_seconds() -> None:
    assert progress.line("ok", "Kafka", 1.94).split() == ["ok", "Kafka", "1.9", "s"]


# Browser and containers


def test_a_browser_is_looked_for_where_playwright_was_told_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "NAMES", ())
    monkeypatch.setattr(chromium, "PLACES", ())
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert chromium.find() is None
    browser = tmp_path / "chromium-1187" / "chrome-linux" / "chrome"
    browser.parent.mkdir(parents=True)
    browser.touch()
    assert chromium.find() == browser


@pytest.mark.parametrize(("ci", "compulsory"), [("true", True), ("1", True), ("", False)])
def test_the_browser_is_compulsory_under_ci(ci: str, compulsory: bool) -> None:
    assert chromium.is_compulsory({"CI": ci}) is compulsory


@pytest.mark.parametrize(
    ("wanted", "answers", "served"),
    [("docker", True, True), ("docker", False, False), ("", True, False), ("podman", True, False)],
)
def test_containers_serve_when_they_are_wanted_and_a_daemon_answers(
    wanted: str, answers: bool, served: bool
) -> None:
    assert docker.serve_tests({"SLUICE_TEST_SERVERS": wanted}, lambda: answers) is served


def test_a_daemon_is_not_asked_when_nobody_wants_containers() -> None:
    def asked() -> bool:
        raise AssertionError("asked")

    assert docker.serve_tests({}, asked) is False


def test_a_missing_daemon_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert docker.daemon_answers() is False


def test_an_unanswered_question_is_an_error_not_a_wait() -> None:
    with pytest.raises(OSError, match=r".+"):
        pgwire.query(ports.choose(), "SELECT 1")
