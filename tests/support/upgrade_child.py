"""`python -m tests.support.upgrade_child`: a filled database of the first migrations, migrated.

Prints one JSON object: what of its rows is missing or says something else afterwards.
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402 - the settings come first
from django.db import connection  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402

from crontasks.models import CronInstance  # noqa: E402
from integration.models import Queue  # noqa: E402
from integration.store import configuration  # noqa: E402

# The state that stands for the version before; the other apps are as they are.
BEFORE = [("integration", "0001_initial"), ("crontasks", "0001_initial")]
AT = datetime(2026, 1, 2, tzinfo=UTC)
TOPIC = "00000000-0000-0000-0000-000000000001"
# Written by `migrate` itself, as it goes.
OF_MIGRATE = frozenset({"django_migrations", "django_content_type", "auth_permission"})


def main() -> None:
    """Migrate so far, fill, look, migrate to the end, look again."""
    executor = MigrationExecutor(connection)
    executor.migrate(
        [*BEFORE, ("auth", _last("auth")), ("django_celery_beat", _last("django_celery_beat"))]
    )
    _fill(executor.loader.project_state(BEFORE).apps)
    before = _rows()
    call_command("migrate", verbosity=0)
    after = _rows()
    lost = [
        {"table": table, "row": row}
        for table, rows in before.items()
        for row in rows
        if not any(row.items() <= other.items() for other in after.get(table, []))
    ]
    queue = Queue.objects.get(name="orders")
    read = configuration.snapshot(queue.pk, worker="upgrade")
    told = {
        "lost": lost,
        "tables": sorted(before),
        "queues": sorted(Queue.objects.values_list("name", flat=True)),
        "reads": str(read is not None),
        "instances": sorted(CronInstance.objects.values_list("task", flat=True)),
    }
    sys.stdout.write(json.dumps(told))


def _last(app: str) -> str:
    """The newest migration of an app of others."""
    [(_, name)] = MigrationExecutor(connection).loader.graph.leaf_nodes(app)
    return name


def _fill(apps: Any) -> None:
    """A row of everything that people set up, and of what the engine keeps for long."""

    def made(model: str, app: str = "integration", **fields: Any) -> Any:
        return apps.get_model(app, model).objects.create(**fields)

    provider = made("Provider", name="main", bootstrap_servers="kafka:9092", password="secret")
    system = made("ExternalSystem", name="erp", description="The ERP")
    structure = made("ObjectStructure", name="order", key_paths=["$.number"])
    service = made("EnterpriseService", interface="ORDER", structure=structure)
    kinds = {"orders": "sequential", "changes": "continuous", "outgoing": "sequential"}
    for name, kind in kinds.items():
        queue = made(
            "Queue",
            name=name,
            topic=f"erp.{name}",
            kind=kind,
            provider=provider,
            system=system,
            default_service=service if name != "outgoing" else None,
            direction="outbound" if name == "outgoing" else "inbound",
            start_from="beginning",
        )
        place = made(
            "QueuePartition",
            queue=queue,
            partition=0,
            topic_uuid=TOPIC,
            next_offset=17,
            state="RUNNING",
        )
        for offset, state in enumerate(("HOLD", "RETRY", "RESOLVED")):
            error = made(
                "MessageError",
                queue=place.queue,
                topic_uuid=TOPIC,
                partition=0,
                offset=offset,
                message_id=f"{name}-{offset}",
                key=b"K\x001",
                payload=b'{"number": "\xc3\x9c 1"}',
                headers=[["a", "YQ=="], ["b", None]],
                state=state,
                not_before=AT if state == "RETRY" else None,
                closed_at=AT if state == "RESOLVED" else None,
                failure_class="PERMANENT",
                code="NO_SITE",
                first_failed_at=AT,
                last_failed_at=AT,
            )
            made("ErrorAttempt", error=error, number=1, at=AT, ended="HOLD", code="NO_SITE")
    made(
        "OutboxRow",
        provider=provider,
        topic="erp.out",
        key=b"k",
        value=b"v",
        kind="MESSAGE",
        created_at=AT,
    )
    made("CronInstance", "crontasks", name="Mine", task="lag_monitor", crontab="*/5 * * * *")


def _rows() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as PostgreSQL writes it, by the table's name."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        )
        for (table,) in cursor.fetchall():
            if table in OF_MIGRATE:
                continue
            cursor.execute(f'SELECT to_jsonb(t)::text FROM "{table}" t')
            if rows := [json.loads(row) for (row,) in cursor.fetchall()]:
                found[table] = rows
    return found


if __name__ == "__main__":
    main()
