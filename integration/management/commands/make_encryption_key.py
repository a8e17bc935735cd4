"""Makes a key for SLUICE_ENCRYPTION_KEYS."""

from cryptography.fernet import Fernet
from django.core.management.base import BaseCommand


def new_key() -> str:
    """32 random bytes in URL-safe base64."""
    return Fernet.generate_key().decode()


class Command(BaseCommand):
    """`manage.py make_encryption_key`; needs no settings, see manage.py."""

    help = (
        "Print a new key for SLUICE_ENCRYPTION_KEYS. To rotate, put it in front of the list and "
        "leave the old ones behind it until `rotate_secrets` has run."
    )
    requires_system_checks = []

    def handle(self, *_: object, **__: object) -> None:
        self.stdout.write(new_key())
