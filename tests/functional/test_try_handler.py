"""The commands a handler author uses: try_handler, startintegration, make_encryption_key."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection, connections

from integration.models import EnterpriseService, ObjectStructure, StoredObject
from sample.models import Asset

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[2]
ASSET = '{"assetnum": "P-1", "siteid": "NORTH", "description": "Pump", "status": "OPERATING"}'


def tried(*arguments: str) -> tuple[str, int]:
    out = io.StringIO()
    try:
        call_command("try_handler", *arguments, stdout=out)
    except SystemExit as end:
        return out.getvalue(), int(str(end.code))
    return out.getvalue(), 0


def test_what_was_written_is_shown_and_rolled_back(tmp_path: Path) -> None:
    file = tmp_path / "asset.json"
    file.write_text(ASSET)
    told, status = tried("MXASSETInterface", str(file))
    assert status == 0
    assert "Applied." in told
    assert "sample_asset: 1 inserted" in told
    assert '"assetnum": "P-1"' in told
    assert not Asset.objects.exists()


def test_an_update_shows_the_new_row_only(tmp_path: Path) -> None:
    Asset.objects.create(assetnum="P-1", siteid="NORTH", status="OPERATING", description="old")
    Asset.objects.create(assetnum="P-2", siteid="NORTH", status="OPERATING", description="other")
    file = tmp_path / "asset.json"
    file.write_text(ASSET)
    told, _ = tried("MXASSETInterface", str(file))
    assert "sample_asset: 1 updated" in told
    assert '"description": "Pump"' in told
    assert "other" not in told


def test_a_structure_can_be_tried_too(tmp_path: Path) -> None:
    structure = ObjectStructure.objects.create(name="place", key_paths=["$.location"])
    EnterpriseService.objects.create(interface="MXLOCATIONInterface", structure=structure)
    file = tmp_path / "place.json"
    file.write_text('{"location": "HALL-1"}')
    told, status = tried("MXLOCATIONInterface", str(file))
    assert status == 0
    assert "integration_storedobject: 1 inserted" in told
    assert not StoredObject.objects.exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (ASSET.replace("OPERATING", "BROKEN"), "VALIDATION"),
        (ASSET[:-10], "TRUNCATED_JSON"),
    ],
)
def test_a_failure_is_told_with_its_class_and_code(tmp_path: Path, content: str, code: str) -> None:
    file = tmp_path / "asset.json"
    file.write_text(content)
    told, status = tried("MXASSETInterface", str(file))
    assert status == 1
    assert f"Failed: permanent, {code}" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("MXNOBODYInterface", __file__), "No handler for 'MXNOBODYInterface' is installed"),
        (("MXASSETInterface", "/nowhere.json"), "cannot be read"),
        (("MXASSETInterface", __file__, "--header", "novalue"), "is not NAME=VALUE"),
    ],
)
def test_a_wrong_argument_is_told_in_a_sentence(arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        tried(*arguments)


# Django's test runner finds the database `starter` under this name.
COPY = "test_starter"
# As a person types them, in one process: each start of one takes seconds.
CHECKED = """
from django.core.management import execute_from_command_line as manage
manage("manage.py makemigrations --check --dry-run warehouse_feed".split())
manage("manage.py test warehouse_feed --noinput --keepdb".split())
"""


@pytest.fixture
def migrated() -> Iterator[str]:
    """The address of a copy of the test database: to migrate a new one takes seconds."""
    ours = connection.settings_dict["NAME"]
    server = os.environ["SLUICE_DATABASE_URL"].rsplit("/", 1)[0]
    connections.close_all()
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
            [ours],
        )
        admin.execute(f'CREATE DATABASE {COPY} TEMPLATE "{ours}" STRATEGY file_copy')
        yield f"{server}/starter"
        admin.execute(f"DROP DATABASE {COPY} WITH (FORCE)")


def test_a_started_integration_passes_its_own_tests(migrated: str, tmp_path: Path) -> None:
    said = io.StringIO()
    call_command("startintegration", "warehouse_feed", directory=str(tmp_path), stdout=said)
    installed = f"{os.environ['SLUICE_INTEGRATIONS']},warehouse_feed"
    assert f"SLUICE_INTEGRATIONS={installed} make run" in said.getvalue()
    assert ".venv/bin/python -m devstack run manage.py test warehouse_feed" in said.getvalue()
    assert "WarehouseFeedInterface" in said.getvalue()
    environment = {
        **os.environ,
        "SLUICE_DATABASE_URL": migrated,
        "PYTHONPATH": str(tmp_path),
        "SLUICE_INTEGRATIONS": installed,
        "DJANGO_SETTINGS_MODULE": "tests.support.settings",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKED],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "No changes detected in app 'warehouse_feed'" in told
    assert "Ran 2 tests" in told


@pytest.mark.parametrize("name", ["Not-A-Name", "sample", "class"])
def test_a_name_that_cannot_be_used_changes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(CommandError):
        call_command("startintegration", name, directory=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_key_can_be_made_before_there_are_settings() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "make_encryption_key"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Fernet(done.stdout.strip())
