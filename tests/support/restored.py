"""A backup and a restore of the test's own database, by a copy of the whole of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from django.db import connection, connections

from crontasks.copies import claim_database
from integration.kafka.source import group_of
from integration.models import Deployment, Queue
from integration.store import deployments
from tests.support.kafka_world import Kafka

Stop = Callable[..., str | None]

BACKUP: Final = "sluice_backup"
TERMINATE: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = %s AND pid <> pg_backend_pid()"
)


def once_noted(queue: Queue) -> Stop:
    """What stops a run of a queue once its position for lag tools is that of the topic's end."""
    broker, group = Kafka(queue.provider.bootstrap_servers), group_of(queue)

    def stop(**_: object) -> str | None:
        noted = broker.committed(group, queue.topic)
        return "noted" if noted == broker.end(queue.topic) else None

    return stop


@contextmanager
def _server() -> Iterator[psycopg.Connection[Any]]:
    where = connection.settings_dict
    connections.close_all()
    with psycopg.connect(
        dbname="postgres",
        user=where["USER"],
        password=where["PASSWORD"] or None,
        host=where["HOST"],
        port=where["PORT"],
        autocommit=True,
    ) as session:
        yield session


def _in_place_of(target: str, make: str) -> None:
    """Make a database of that name, in the place of the one that has it."""
    with _server() as session:
        for name in (str(connection.settings_dict["NAME"]), BACKUP):
            session.execute(TERMINATE, [name])
        session.execute(f'DROP DATABASE IF EXISTS "{target}"')
        session.execute(make)


def own() -> None:
    """The database is this installation's, and knows where its data is."""
    claim_database()
    with connection.cursor() as cursor:
        assert deployments.may_act(cursor)


def back_up() -> None:
    """Copy the test's database as it is now: file by file, and not through the journal."""
    copy_to(BACKUP)


def copy_to(name: str) -> None:
    """The same under any name; a database that has it makes room."""
    own = connection.settings_dict["NAME"]
    _in_place_of(name, f'CREATE DATABASE "{name}" TEMPLATE "{own}" STRATEGY file_copy')


def give_tables_to(url: str) -> None:
    """Put a copy in place of another project's database; it belongs to no deployment yet."""
    copy_to(urlsplit(url).path.removeprefix("/"))
    with psycopg.connect(url) as session:
        session.execute("DELETE FROM integration_deployment")


def restore() -> None:
    """Put the copy in place of the test's database; there is no backup any more."""
    own = str(connection.settings_dict["NAME"])
    _in_place_of(own, f'ALTER DATABASE "{BACKUP}" RENAME TO "{own}"')


def drop_backup() -> None:
    with _server() as session:
        session.execute(f'DROP DATABASE IF EXISTS "{BACKUP}"')


def forget_the_move() -> None:
    """As after a snapshot of the disk: nothing of the database tells that it is an older one."""
    with connection.cursor() as cursor:
        mark = deployments.standing(cursor).mark
    Deployment.objects.update(database_mark=mark)
