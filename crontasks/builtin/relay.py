"""The relay's tick: keeps one relay alive on the Celery queue `relay`."""

from typing import Final

from kombu.exceptions import OperationalError

from crontasks.celery_app import app
from crontasks.definitions import NoParameters, crontask
from crontasks.expiry import expires_in
from crontasks.outcome import NOTHING, Context, Outcome
from crontasks.task_names import RUN_RELAY
from integration.store import locks, relay_sharing
from integration.store.sessions import django_connection, fetch_all

EXPIRES_SECONDS: Final = 30
# Asked when a provider has a shard nobody relays, and not more often than every ten seconds, so
# that a relay worker that is away finds a few old requests and not a day's worth.
_KEY: Final = locks.relay_key_sql("served.provider", "served.shard")
_IS_WANTED: Final = f"""EXISTS (
    SELECT 1 FROM ({relay_sharing.SERVED}) served (provider, shard)
    WHERE NOT {locks.is_held(locks.LockClass.RELAY, _KEY)})"""
_ASK: Final = f"""
    UPDATE crontasks_croninstance SET asked_at = clock_timestamp()
    WHERE id = %s
      AND (asked_at IS NULL OR asked_at < clock_timestamp() - interval '10 s') AND {_IS_WANTED}
    RETURNING id"""


@crontask("relay", title="Relay", asks_only=True)
class Relay:
    """Sends the outbox to Kafka. A second relay ends at once, for the first holds the lock."""

    @staticmethod
    def has_work() -> bool:
        """Return whether a provider has a shard that nobody relays."""
        return bool(fetch_all(f"SELECT {_IS_WANTED}")[0][0])

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        with django_connection().cursor() as cursor:
            cursor.execute(_ASK, (context.instance_id,))
            if cursor.fetchone() is None:
                return NOTHING
            try:
                app.send_task(RUN_RELAY, headers=expires_in(EXPIRES_SECONDS))
            except OperationalError:
                cursor.execute(
                    "UPDATE crontasks_croninstance SET asked_at = NULL WHERE id = %s",
                    (context.instance_id,),
                )
                raise
        return NOTHING
