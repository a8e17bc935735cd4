"""What people decide about branches whose coordinator does not come back, and about their log."""

from enum import StrEnum

from django.db import transaction

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import ReasonMissingError
from integration.connections import lookup
from integration.models import ConnectionFactory
from integration.store.sessions import database_now
from integration.xa import decisions
from integration.xa.errors import XaProtocolError
from integration.xa.xid import Xid


class Choice(StrEnum):
    """What is to happen to a branch."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    # Its coordinator will never ask what a person has decided; or it was decided by a database of
    # ours, and what it sent can never be delivered.
    FORGET = "forget"


def decide(factory: ConnectionFactory, text: str, choice: Choice, author: Author) -> None:
    """Commit, roll back or forget a branch instead of its coordinator.

    Of one about which a database of ours decides, recovery does what that says: it can only be
    forgotten, and only if Kafka refuses to deliver it.
    Raises ReasonMissingError, XidInvalidError, XaUnknownError, XaSideLostError, XaProtocolError.
    """
    if not author.reason.strip():
        raise ReasonMissingError(action=f"{choice} a branch")
    xid = Xid.parse(text)
    is_ours = decisions.database_of(xid) is not None
    if is_ours and choice is not Choice.FORGET:
        raise XaProtocolError(xid, "a person's decision", "decided by our database")
    resource = lookup(factory.name).xa()
    # Kafka and the audit cannot be written together. What is told of and was refused does less
    # harm than what was done and nobody knows.
    after = {"branch": f"{xid}: {choice}"}
    configuration.record(factory, {"branch": str(xid)}, after, author)
    if is_ours:
        decisions.drop(resource, xid)
    elif choice is Choice.FORGET:
        resource.forget(xid)
    else:
        resource.decide(xid, commit=choice is Choice.COMMIT)


def accept_log(factory: ConnectionFactory, author: Author) -> None:
    """Take the topic of the log as it is now: what it lacks is over, as far as we know.

    Every process then looks at it anew. Raises ReasonMissingError.
    """
    if not author.reason.strip():
        raise ReasonMissingError(action="accept a log of transactions")
    with transaction.atomic():
        stored = ConnectionFactory.objects.select_for_update().get(pk=factory.pk)
        before = {"log": stored.xa_log_seen}
        configuration.record(factory, before, {"log": "accepted as it is"}, author)
        ConnectionFactory.objects.filter(pk=factory.pk).update(
            xa_log_seen="", changed_at=database_now()
        )
