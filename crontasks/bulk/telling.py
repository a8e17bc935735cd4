"""A stored run as its job is told of it: with the database, and Kafka's secrets, of this moment."""

from psycopg.conninfo import make_conninfo

from integration.kafka.client import connection
from integration.models import BulkRun, Provider
from integration.store.sessions import TAKEOVER_SETTINGS, django_connection
from spark_jobs.contract import Arguments
from spark_jobs.problems import JobError


def arguments_of(run: BulkRun) -> Arguments:
    """Raises JobError UNKNOWN_PROVIDER, ProviderUnusableError."""
    return Arguments(
        job=run.job,
        run=str(run.pk),
        parameters=run.parameters,
        database=conninfo(),
        kafka=_kafka(run.parameters.get("provider")),
        plan=run.plan,
        epoch=run.epoch,
    )


def conninfo() -> str:
    """The database as libpq is told of it; sessions of what was killed end soon."""
    where = django_connection().settings_dict
    return make_conninfo(
        dbname=where["NAME"],
        user=where["USER"] or None,
        password=where["PASSWORD"] or None,
        host=where["HOST"] or None,
        port=where["PORT"] or None,
        connect_timeout=5,
        options=TAKEOVER_SETTINGS,
    )


def _kafka(provider: int | None) -> dict[str, str]:
    if provider is None:
        return {}
    found = Provider.objects.filter(pk=provider).first()
    if found is None:
        raise JobError(
            "UNKNOWN_PROVIDER",
            "The provider that the run was asked for is gone.",
            "Start a new run with one that is there.",
        )
    return {name: str(value) for name, value in connection(found).properties.items()}
