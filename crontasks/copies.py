"""A copy of a production database must not act: its environment's name gives it away."""

from typing import Final

from cryptography.fernet import InvalidToken
from django.conf import settings

from crontasks.cursor import Cursor
from integration.models import Deployment
from integration.models.fields import keyring

_CANARY: Final = b"sluice"


def claim_database() -> None:
    """Write down once which deployment and environment this database belongs to."""
    if not Deployment.objects.exists():
        Deployment.objects.create(
            name=settings.SLUICE_DEPLOYMENT,
            environment=settings.SLUICE_ENVIRONMENT,
            canary=keyring().encrypt(_CANARY).decode(),
        )


def foreign_environment(cursor: Cursor) -> str | None:
    """The environment this database belongs to if that is not ours; None when it may act."""
    cursor.execute(
        "SELECT environment FROM integration_deployment WHERE environment <> %s LIMIT 1",
        (settings.SLUICE_ENVIRONMENT,),
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])


def can_read_secrets() -> bool:
    """Whether today's keys open what was encrypted when the database was set up."""
    deployment = Deployment.objects.first()
    if deployment is None:
        return True
    try:
        return keyring().decrypt(deployment.canary.encode()) == _CANARY
    except InvalidToken:
        return False
