"""`python -m crontasks.alive KIND`: whether this host's worker, relay, Spark driver or beat lives.

For the health checks of containers, which ask again and again: without Django's set-up it takes a
third of the time of a management command (0.4 s of a core).
"""

import socket
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from crontasks.hearts import ALIVE_SECONDS
from sluice import env
from sluice.database import place_of

CONNECT_SECONDS: Final = 5
# What each writes of itself: the kind of its heartbeat, and the Celery queue it serves.
KINDS: Final = {
    "worker": ("worker", "celery"),
    "relay": ("worker", "relay"),
    "spark": ("worker", "spark"),
    "beat": ("beat", ""),
}
# A node is `name@host:pid`; the process writes it itself every two seconds, so it tells more than
# that the process is there: it reaches the database, and a worker with slots takes Celery tasks.
_ALIVE: Final = """
    SELECT node, kind <> 'worker' OR slots > 0 AS works FROM crontasks_heartbeat
    WHERE kind = %s AND (%s = '' OR %s = ANY(string_to_array(queues, ',')))
      AND split_part(split_part(node, '@', 2), ':', 1) = %s
      AND seen_at > clock_timestamp() - make_interval(secs => %s)"""


def nodes(database: Mapping[str, Any], kind: str, host: str) -> dict[str, bool]:
    """Map this kind's nodes on this host to whether they do their work. Raises psycopg.Error."""
    heart, queue = KINDS[kind]
    with psycopg.connect(
        **place_of(database),
        connect_timeout=CONNECT_SECONDS,
        application_name="sluice alive",
    ) as connection:
        rows = connection.execute(_ALIVE, (heart, queue, queue, host, ALIVE_SECONDS)).fetchall()
    return dict(rows)


def _database() -> Mapping[str, Any]:
    """Its entry of DATABASES. Raises SettingsError, ImproperlyConfigured."""
    if env.referred("SLUICE_DATABASE_URL"):
        return env.read().database
    # In another project it is that project's. Its settings may take longer to import.
    return cast("Mapping[str, Any]", settings.DATABASES[settings.SLUICE_DATABASE])


def main(arguments: list[str]) -> str | None:
    """None when one lives; else why not, for people."""
    if len(arguments) != 1 or arguments[0] not in KINDS:
        return f"Say which: python -m crontasks.alive {'|'.join(KINDS)}"
    (kind,) = arguments
    host = socket.gethostname()
    try:
        living = nodes(_database(), kind, host)
    except (env.SettingsError, ImproperlyConfigured) as e:
        return str(e)
    except psycopg.Error as e:
        return f"The database does not answer: {e}"
    if any(living.values()):
        return None
    if living:
        return (
            f"{', '.join(living)} is alive but takes no Celery tasks. Check whether the Celery "
            "broker answers. If it does, this process ends by itself within three minutes."
        )
    return (
        f"No {kind} of {host} showed a heartbeat within {ALIVE_SECONDS} seconds. Check its log; "
        "whoever watches over it should start it anew."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
