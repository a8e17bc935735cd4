"""The other parts of devstack that need no server: ports, jars, stamps, keys, problems."""

import ast
import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from devstack import (
    chromium,
    environment,
    errors,
    jars,
    kafka,
    keys,
    paths,
    ports,
    progress,
    stamps,
)
from devstack.kafka import Kafka, an_id, properties
from devstack.parts import is_secured
from devstack.secured_kafka import secured
from tests.support import browser, docker

pytestmark = pytest.mark.fast


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
    with pytest.raises(errors.Problem) as met:
        ports.assign(tmp_path / "ports.json", ["postgres"], variables=variables)
    assert met.value.code == "PORT_BUSY"
    assert str(busy_port) in met.value.what
    assert "DEVSTACK_POSTGRES_PORT" in met.value.remedy


@pytest.mark.parametrize("written", ["eighty", "0", "65536", "-1"])
def test_a_port_set_by_hand_has_to_be_one(tmp_path: Path, written: str) -> None:
    with pytest.raises(errors.Problem) as met:
        ports.assign(tmp_path / "ports.json", ["web"], variables={"DEVSTACK_WEB_PORT": written})
    assert met.value.code == "BAD_PORT"


def test_a_preferred_port_is_taken_when_it_is_free_and_left_when_it_is_not(
    tmp_path: Path, busy_port: int
) -> None:
    free = ports.choose()
    preferred = {"web": free}
    assert (
        ports.assign(tmp_path / "a.json", ["web"], preferred=preferred, variables={}) == preferred
    )
    preferred = {"web": busy_port}
    assert (
        ports.assign(tmp_path / "b.json", ["web"], preferred=preferred, variables={}) != preferred
    )


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kafka": "many"}'])
def test_a_damaged_file_of_ports_is_made_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "ports.json"
    file.write_text(content)
    assert ports.assign(file, ["kafka"], variables={})["kafka"] in ports.CHOICES


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


def test_jars_are_fetched_into_the_users_cache_or_the_checkouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "FETCHED", tmp_path / "checkout")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    with jars.cache_of("kafka") as cache:
        assert cache == tmp_path / "user" / "sluice" / "ivy" / "kafka"
        assert cache.is_dir()
    (tmp_path / "no-folder").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-folder"))
    with jars.cache_of("kafka") as cache:
        assert cache == tmp_path / "checkout" / "ivy" / "kafka"
        assert cache.is_dir()


def test_a_python_that_the_packages_do_not_run_on_is_not_taken_for_a_missing_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "VENV", tmp_path / "venv")
    paths.VENV.mkdir()
    log = tmp_path / "packages.log"
    assert environment.not_installed(log).code == "NO_NETWORK"
    assert paths.VENV.exists()
    log.write_text("error: No solution found when resolving dependencies\n")
    assert environment.not_installed(log).code == "PYTHON_UNFIT"
    assert not paths.VENV.exists(), "another Python is to make an environment of its own"


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


def test_an_id_is_never_taken_for_an_option() -> None:
    made = [an_id() for _ in range(500)]
    assert all(len(one) == 22 and not one.startswith("-") for one in made)


def test_a_storage_that_is_made_by_us_has_what_kafka_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its tool wrote for these jars, and ids of its own."""
    monkeypatch.setattr(kafka, "JARS", tmp_path)
    (tmp_path / kafka.FEATURES).write_bytes(b"features")
    made = []
    for name in ("one", "other"):
        Kafka(tmp_path / name, 1, controller_port=2, durable=False).prepare()
        data = tmp_path / name / "kafka" / "data"
        assert (data / kafka.FEATURES).read_bytes() == b"features"
        made.append(
            dict(row.split("=", 1) for row in (data / "meta.properties").read_text().split())
        )
    assert made[0].keys() == {"version", "node.id", "cluster.id", "directory.id"}
    assert made[0]["cluster.id"] != made[1]["cluster.id"]


def test_kafka_listens_on_loopback_only() -> None:
    found = properties(port=1, controller_port=2, log_dirs=Path("/x"))
    for name in ("listeners", "advertised.listeners"):
        hosts = [address.split("//")[1].split(":")[0] for address in found[name].split(",")]
        assert set(hosts) == {"127.0.0.1"}


def test_a_secured_kafka_listens_on_loopback_only_and_shows_nobody_its_secrets(
    tmp_path: Path,
) -> None:
    plain = Kafka(tmp_path, 1, controller_port=2, durable=False)
    made = secured(plain, 3, 4)
    found = made.more()
    for name in ("listeners", "advertised.listeners"):
        hosts = [address.split("//")[1].split(":")[0] for address in found[name].split(",")]
        assert set(hosts) == {"127.0.0.1"}
    assert found["listener.name.ssl.ssl.client.auth"] == "required"
    assert made.password == secured(plain, 3, 4).password, "it is made once"
    assert {file.stat().st_mode & 0o077 for file in made.access.iterdir()} == {0}
    assert made.password not in "".join(made.told())


@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("0", False), ("", False)])
def test_logins_and_certificates_are_on_wish(value: str, is_on: bool) -> None:
    assert is_secured({"SECURED": value}) is is_on
    assert not is_secured({})


# What is said


def every_problem() -> list[tuple[str, str, str]]:
    """Code, what and remedy as they stand in the sources; "X" where a value is filled in."""
    return [
        tuple(_text(argument) for argument in call.args)
        for file in sorted((paths.ROOT / "devstack").glob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("Problem")
    ]


def _text(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(part.value if isinstance(part, ast.Constant) else "X" for part in parts)


@pytest.mark.parametrize(("code", "what", "remedy"), every_problem(), ids=lambda text: text[:20])
def test_a_problem_is_one_sentence_and_what_to_do(code: str, what: str, remedy: str) -> None:
    assert code.isupper()
    assert what[0].isupper()
    assert what.endswith((".", ")."))
    assert "\n" not in what + remedy
    assert len(remedy.split()) >= 4


def test_problem_codes_are_unique() -> None:
    codes = [code for code, _, _ in every_problem()]
    assert len(codes) == len(set(codes)) > 15


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
    shell = tmp_path / "chromium_headless_shell-1187" / "chrome-linux" / "headless_shell"
    shell.parent.mkdir(parents=True)
    shell.touch()
    assert chromium.find() == shell


@pytest.mark.parametrize(("ci", "compulsory"), [("true", True), ("1", True), ("", False)])
def test_the_browser_is_compulsory_under_ci(ci: str, compulsory: bool) -> None:
    assert browser.is_compulsory({"CI": ci}) is compulsory


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
