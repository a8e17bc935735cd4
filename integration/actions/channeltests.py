"""A test message of a publish channel: published as any other, together with its audit."""

from django.db import connection, transaction

from integration.actions.configuration import Author
from integration.actions.testmessages import TEST
from integration.clock import database_now
from integration.handlers.publishing import Publication, publish_document
from integration.models import ChannelTarget, ConfigurationChange, OutboxRow, PublishChannel
from integration.models.configuration_change import TEST_MESSAGE

_NEXT_ROW = "SELECT nextval(pg_get_serial_sequence('integration_outboxrow', 'id'))"


def send(channel: PublishChannel, payload: str, key: str, author: Author) -> Publication:
    """Publish the payload to every enabled target; each message gets a row of audit.

    The audit rows are those of other test messages, so that each is followed to its outcome in
    the same way. Raises what publish() raises.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_NEXT_ROW)
            (before,) = cursor.fetchone()
        body = payload.encode()
        done = publish_document(channel.name, body, key, headers={TEST: "1"})
        rows = OutboxRow.objects.filter(pk__gt=before, message_id__in=done.ids.values())
        numbers = dict(rows.values_list("message_id", "pk"))
        targets = ChannelTarget.objects.filter(channel=channel).select_related("queue", "system")
        by_system = {target.system.name: target for target in targets}
        for system, message_id in done.ids.items():
            target = by_system[system]
            after = {
                "channel": channel.name,
                "destination": system,
                "queue": target.queue.name,
                "queue_id": target.queue_id,
                "topic": target.queue.topic,
                "interface": channel.name,
                "envelope": channel.envelope,
                "outgoing_row": numbers[message_id],
            }
            _told(target, message_id, after, author)
    return done


def _told(target: ChannelTarget, message_id: str, after: dict[str, object], author: Author) -> None:
    ConfigurationChange.objects.create(
        at=database_now(),
        actor=author.actor,
        action="send",
        kind=TEST_MESSAGE,
        subject=message_id,
        name=target.queue.name,
        system=target.system,
        before=None,
        after=after,
        reason=author.reason.strip(),
    )
