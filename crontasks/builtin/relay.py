"""The relay's tick: keeps one relay alive on the Celery queue `relay`."""

from typing import Final

from kombu.exceptions import OperationalError

from crontasks.cursor import django_cursor
from crontasks.definitions import NoParameters, crontask
from crontasks.outcome import NOTHING, Context, Outcome

EXPIRES_SECONDS: Final = 30
# Asked when a provider has a shard nobody relays, and not more often than every ten seconds, so
# that a relay worker that is away finds a few old requests and not a day's worth.
_ASK: Final = """
    UPDATE crontasks_croninstance SET asked_at = clock_timestamp()
    WHERE id = %s
      AND (asked_at IS NULL OR asked_at < clock_timestamp() - interval '10 s')
      AND EXISTS (
        SELECT 1 FROM integration_provider p WHERE NOT EXISTS (
            SELECT 1 FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND classid = 20002 AND objsubid = 2
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND objid::bigint = p.id * 16))
    RETURNING id"""


@crontask("relay", title="Relay", asks_only=True)
class Relay:
    """Sends the outbox to Kafka. A second relay ends at once, for the first holds the lock."""

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        from crontasks.tasks import run_relay

        with django_cursor() as cursor:
            cursor.execute(_ASK, (context.instance_id,))
            if cursor.fetchone() is None:
                return NOTHING
            try:
                run_relay.apply_async(expires=EXPIRES_SECONDS, retry=False)
            except OperationalError:
                cursor.execute(
                    "UPDATE crontasks_croninstance SET asked_at = NULL WHERE id = %s",
                    (context.instance_id,),
                )
                raise
        return NOTHING
