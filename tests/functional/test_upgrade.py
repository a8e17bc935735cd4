"""An upgrade on a filled database: everything is still there, and says what it said."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings

from crontasks.instances.registration import SHIPPED
from devstack.servers import Servers

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("postgres")
def test_a_filled_database_of_the_version_before_keeps_every_row(
    unstarted_servers: Servers,
) -> None:
    name = "version_before"
    url = unstarted_servers.database_url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            told = upgraded(urlsplit(url)._replace(path=f"/{name}").geturl())
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert told["lost"] == []
    assert {"integration_queue", "integration_messageerror", "integration_outboxrow"} < {
        *told["tables"]
    }
    assert "crontasks_croninstance" in told["tables"]
    assert told["queues"] == ["changes", "orders", "outgoing"]
    assert told["reads"] == "True"
    assert told["instances"] == sorted(task for _, task, _, _ in SHIPPED)


def upgraded(url: str) -> dict[str, list[object]]:
    """What the child says after it has migrated the database there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.upgrade_child"],
        cwd=ROOT,
        env={
            **os.environ,
            "SLUICE_DATABASE_URL": url,
            "SLUICE_ENVIRONMENT": settings.SLUICE_ENVIRONMENT,
            "DJANGO_SETTINGS_MODULE": "config.settings",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.usefixtures("postgres")
def test_a_migration_gives_up_a_lock_that_others_would_wait_behind(
    unstarted_servers: Servers,
) -> None:
    # As on the page: what waits for a table lets nobody else at it.
    look = "from django.db import connection as c; u = c.cursor(); u.execute('SHOW lock_timeout')"
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v0", "-c", f"{look}; print(u.fetchone()[0])"],
        cwd=ROOT,
        env={
            **os.environ,
            "SLUICE_DATABASE_URL": unstarted_servers.database_url,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PGOPTIONS": "-c lock_timeout=5s",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "5s"
    page = (ROOT / "docs" / "upgrade.md").read_text()
    assert "PGOPTIONS='-c lock_timeout=5s' .venv" in page, "with systemd; containers set it"
