"""What people decide about a provider's schema registry."""

from django.db import transaction

from integration.actions.configuration import Author, record
from integration.models import Provider


def forget_schemas(provider: Provider, author: Author) -> int:
    """Take the registry at its word again, whatever it had under its ids; with its row of audit.

    Returns how many schemas were known.
    """
    with transaction.atomic():
        count, _ = provider.schemas.all().delete()
        if count:
            record(provider, {"known_schemas": count}, {"known_schemas": 0}, author)
    return count
