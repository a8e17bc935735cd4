"""Programs that devstack looks for, their versions, and where the database's files may lie."""

from pathlib import Path

import pytest

from devstack import accounts, errors, java, postgres, postgres_programs
from devstack.supervise import Account

pytestmark = pytest.mark.fast

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
    with pytest.raises(errors.Problem) as met:
        java.find([old])
    assert met.value.code == "JAVA_TOO_OLD"
    assert f"{old} is Java 11" in met.value.what


def test_no_java_is_a_problem_with_a_remedy() -> None:
    with pytest.raises(errors.Problem) as met:
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
    with pytest.raises(errors.Problem) as met:
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
    with pytest.raises(errors.Problem) as met:
        accounts.own_folder(tmp_path / "place", None)
    assert met.value.code == "FOREIGN_FOLDER"
