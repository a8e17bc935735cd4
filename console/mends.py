"""Where in the configuration the cause of a failure is mended, for people who may do that."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.urls import reverse

from integration.models import MessageError


@dataclass(frozen=True, slots=True)
class Mend:
    """A link to the form that mends the cause."""

    address: str
    label: str


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the configuration; `field` takes the interface of the message, if it is named."""

    page: str
    right: str
    label: str
    field: str = ""


SERVICE: Final = "integration_enterpriseservice"
BY_CODE: Final = MappingProxyType(
    {
        "UNKNOWN_SERVICE": Place(
            f"{SERVICE}_add", "add_enterpriseservice", "Register the service", "interface"
        ),
        "SERVICE_DISABLED": Place(
            f"{SERVICE}_changelist", "change_enterpriseservice", "Open the service", "q"
        ),
        "SYSTEM_DISABLED": Place(
            "integration_externalsystem_changelist", "change_externalsystem", "Open the systems"
        ),
    }
)


def mend_of(error: MessageError, user: User | AnonymousUser) -> Mend | None:
    """Return the link for this failure, or None where there is no such page or right."""
    place = BY_CODE.get(error.code)
    if place is None or not user.is_staff or not user.has_perm(f"integration.{place.right}"):
        return None
    query = f"?{urlencode({place.field: error.interface})}" if place.field else ""
    return Mend(reverse(f"admin:{place.page}") + query, place.label)
