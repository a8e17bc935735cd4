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
