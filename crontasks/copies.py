"""The mark that a database gets when it is set up: whose it is, and with which keys."""

from typing import Final

from cryptography.fernet import InvalidToken
from django.conf import settings

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


def can_read_secrets() -> bool:
    """Return whether today's keys open what was encrypted when the database was set up."""
    deployment = Deployment.objects.first()
    if deployment is None:
        return True
    try:
        return keyring().decrypt(deployment.canary.encode()) == _CANARY
    except InvalidToken:
        return False
