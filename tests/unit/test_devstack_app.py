"""Sluice's own processes: what `make run` starts, with which settings, and what it tells."""

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devstack import cli, errors, keys, ports
from devstack.app import App
from devstack.parts import PARTS, Part, wanted, with_payments
from devstack.servers import as_left_in, in_folder
from sluice import env

pytestmark = pytest.mark.fast


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path, in_folder(tmp_path, durable=False))


def test_the_settings_take_what_devstack_gives_them(app: App) -> None:
    settings = env.read(app.environment())
    assert settings.environment == "development"
    assert settings.database["PORT"] == str(app.servers.postgres.port)
    assert settings.kafka_bootstrap == app.servers.kafka_bootstrap
    assert settings.celery_broker_url == app.servers.celery_broker_url


def test_the_password_is_not_among_what_every_process_gets(app: App) -> None:
    password = keys.read_or_make(app.folder / "keys.json")["SLUICE_ADMIN_PASSWORD"]
    assert password not in app.environment().values()
    assert password in app.login()


def test_sample_traffic_can_be_left_out() -> None:
    names = [part.name for part in PARTS if part.name != "payments"]
    assert [part.name for part in wanted({})] == names
    assert "sample" in [part.name for part in wanted({"SAMPLE": "1"})]
    for said in ("0", "false", "No"):
        assert "sample" not in [part.name for part in wanted({"SAMPLE": said})]
    # Its command comes with its app.
    assert "sample" not in [part.name for part in wanted({"SLUICE_INTEGRATIONS": "mine"})]
    assert "sample" in [part.name for part in wanted({"SLUICE_INTEGRATIONS": "mine, sample"})]


def test_the_spark_driver_can_be_left_out() -> None:
    assert "spark" in [part.name for part in wanted({"SPARK": "1", "SAMPLE": "0"})]
    without = [part.name for part in wanted({"SPARK": "0"})]
    assert without == [part.name for part in PARTS if part.name not in {"spark", "payments"}]
    with pytest.raises(errors.Problem, match=r"SPARK .*'off'"):
        wanted({"SPARK": "off"})


def test_the_payment_example_comes_on_wish_and_stays_until_it_is_switched_off() -> None:
    def parts(**variables: str) -> list[str]:
        return [part.name for part in wanted(variables)]

    assert "payments" in parts(PAYMENTS="1")
    assert "payments" not in parts(PAYMENTS="0", SLUICE_INTEGRATIONS="sample,payments")
    # As an earlier start has left it.
    assert "payments" in parts(SLUICE_INTEGRATIONS="sample, payments")
    with pytest.raises(errors.Problem, match=r"PAYMENTS .*'maybe'"):
        parts(PAYMENTS="maybe")


@pytest.mark.parametrize(
    ("apps", "switch", "then"),
    [
        ("sample", "", "sample"),
        ("sample", "1", "sample,payments"),
        ("sample, payments", "1", "sample, payments"),
        ("", "yes", "payments"),
        ("sample,payments,mine", "0", "sample,mine"),
        ("sample", "0", "sample"),
    ],
)
def test_the_switch_of_the_payment_example_installs_its_app(apps: str, switch: str, then: str):
    assert with_payments(apps, {"PAYMENTS": switch}) == then


def test_a_slip_in_the_switch_is_told_and_not_guessed() -> None:
    with pytest.raises(errors.Problem, match=r"SAMPLE .*'off'") as told:
        wanted({"SAMPLE": "off"})
    assert told.value.code == "BAD_SWITCH"


@pytest.mark.parametrize("words", [["manage.py", "doctor"], ["-m", "celery", "-A", "config"], []])
def test_what_follows_run_is_left_to_the_program_that_is_run(words: list[str]) -> None:
    assert cli.parse(["run", *words]).words == words


def test_a_process_that_is_still_ending_does_not_count_as_started(app: App) -> None:
    part = Part("sleeper", "Sleeper", ("-c", "import time; time.sleep(600)"))
    app._start(part)
    process = app.process(part)
    old = process.pid
    assert old is not None
    try:
        app._start(part)
        assert process.pid == old, "one that runs is left alone"
        # As a `make stop` leaves it that was interrupted before the process had ended.
        process.remember(old, is_ending=True)
        app._start(part)
        assert process.pid not in {None, old}
        assert not process.is_ending
    finally:
        process.kill()


def test_a_stack_that_is_stopped_names_what_it_had_to_kill(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devstack.app.GRACE_SECONDS", 0.1)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    part = replace(PARTS[1], arguments=("-c", deaf + "time.sleep(600)"), says="up")
    app._wait_for(part, app._start(part))
    assert app.stop() == ["Worker"]
    assert not app.process(part).is_alive()


def test_the_consoles_address_is_the_port_it_was_given(app: App) -> None:
    file = app.folder / "ports.json"
    chosen = ports.assign(file, ["web"], preferred={"web": ports.choose()}, variables={})
    assert app.address == f"http://127.0.0.1:{chosen['web']}/"


def test_what_tells_the_password_is_for_its_owner_only(tmp_path: Path) -> None:
    keys.write_private(tmp_path / "console.txt", "secret")
    assert stat.S_IMODE((tmp_path / "console.txt").stat().st_mode) == 0o600


def test_stopping_what_never_ran_is_no_error(app: App) -> None:
    app.stop()
    as_left_in(app.folder).stop()
    assert not any(app.process(part).is_alive() for part in PARTS)


def test_asking_after_a_set_that_never_was_chooses_no_ports(tmp_path: Path) -> None:
    assert as_left_in(tmp_path).postgres.port == 0
    assert not (tmp_path / "ports.json").exists()


@pytest.fixture
def sleeping(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[Part]:
    """The only part of the app: it sleeps, and says when it does."""
    monkeypatch.delenv("SLUICE_INTEGRATIONS", raising=False)
    code = "import time; print('up', flush=True); time.sleep(600)"
    part = Part("sleeper", "Sleeper", ("-c", code), says="up")
    monkeypatch.setattr("devstack.parts.PARTS", (part,))
    yield part
    app.process(part).kill()


def test_a_start_with_other_settings_starts_what_runs_anew(
    app: App, sleeping: Part, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app.start()
    first = app.process(sleeping).pid
    app.start()
    assert app.process(sleeping).pid == first, "nothing has changed"
    monkeypatch.setenv("SLUICE_INTEGRATIONS", "sample,mine")
    capsys.readouterr()
    app.start()
    assert app.process(sleeping).pid not in {None, first}
    assert "other settings: SLUICE_INTEGRATIONS" in capsys.readouterr().out


def test_a_start_from_another_shell_keeps_the_apps_of_the_last_one(
    app: App, sleeping: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.integrations() == "Integrations: sample"
    monkeypatch.setenv("SLUICE_INTEGRATIONS", "sample,mine")
    assert app.integrations() == "Integrations: sample, mine"
    app.start()
    monkeypatch.delenv("SLUICE_INTEGRATIONS")
    first = app.process(sleeping).pid
    app.start()
    assert app.process(sleeping).pid == first
    assert app.environment()["SLUICE_INTEGRATIONS"] == "sample,mine"
    assert app.integrations().startswith("Integrations: sample, mine, as at the last start")


def test_what_is_remembered_of_the_settings_is_for_its_owner_and_holds_no_key(
    app: App, sleeping: Part
) -> None:
    app.start()
    file = app.folder / "settings.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secrets = keys.read_or_make(app.folder / "keys.json")
    assert not any(secret in file.read_text() for secret in secrets.values())


def test_temporary_files_of_killed_processes_are_swept_at_the_next_start(
    app: App, sleeping: Part
) -> None:
    left = Path(app.environment()["TMPDIR"]) / "blockmgr-1"
    left.mkdir()
    app.start()
    assert not left.exists()
    left.mkdir(parents=True)
    app.start()
    assert app.process(sleeping).is_alive()
    assert left.exists(), "it may be in use: the process still runs"
