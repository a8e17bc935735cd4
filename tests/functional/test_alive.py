"""`python -m crontasks.alive`: a container's health check sees the processes of its own host."""

import os
import socket
import subprocess
import sys
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from crontasks import alive
from crontasks.hearts import Heart
from crontasks.models import Heartbeat

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

HERE = socket.gethostname()


def found(kind: str, host: str = HERE) -> list[str]:
    return [
        node for node, works in alive.nodes(connection.settings_dict, kind, host).items() if works
    ]


def a_heart(kind: str, name: str, queues: str = "", slots: int = 1) -> str:
    node = f"{name}@{HERE}:1"
    with connection.cursor() as cursor:
        Heart(kind=kind, node=node, queues=queues, slots=slots).beat(cursor, leads=False)
    return node


def test_each_process_is_seen_as_what_it_is() -> None:
    worker = a_heart("worker", "worker", "celery")
    relay = a_heart("worker", "relay", "relay")
    beat = a_heart("beat", "beat")
    spark = a_heart("worker", "spark", "spark")

    assert (found("worker"), found("relay"), found("beat")) == ([worker], [relay], [beat])
    assert found("spark") == [spark]


def test_one_worker_may_serve_both() -> None:
    both = a_heart("worker", "both", "celery,relay")

    assert (found("worker"), found("relay"), found("beat")) == ([both], [both], [])


def test_neither_another_host_nor_a_heart_that_stopped_counts() -> None:
    a_heart("worker", "worker", "celery")
    assert found("worker", "elsewhere") == []
    Heartbeat.objects.update(seen_at=timezone.now() - timedelta(minutes=1))

    assert found("worker") == []


def test_what_it_says_is_what_a_supervisor_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the module itself; that a process ends with it is tested below."""
    url = urlsplit(os.environ["SLUICE_DATABASE_URL"])
    ours = url._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    monkeypatch.setenv("SLUICE_DATABASE_URL", ours)

    missing = alive.main(["worker"])
    assert missing is not None
    assert f"No worker of {HERE} showed a heartbeat" in missing
    a_heart("worker", "worker", "celery", slots=0)
    idle = alive.main(["worker"])
    assert idle is not None
    assert "takes no Celery tasks" in idle
    a_heart("worker", "worker", "celery")
    assert alive.main(["worker"]) is None
    asked = [sys.executable, "-m", "crontasks.alive", "worker"]
    assert subprocess.run(asked, check=False).returncode == 0


def test_it_ends_with_what_a_supervisor_reads() -> None:
    variables = {**os.environ, "SLUICE_DATABASE_URL": "postgresql://sluice@127.0.0.1:1/sluice"}
    asked = [sys.executable, "-m", "crontasks.alive", "worker"]
    away = subprocess.run(asked, env=variables, capture_output=True, text=True, check=False)
    assert away.returncode == 1
    assert "The database does not answer" in away.stderr
