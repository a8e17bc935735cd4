"""Links to the set-up page that removes the cause of a failure, for people who may use it."""

from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.urls import reverse

from console.layout.navigation import Button
from console.setup.services import SERVICES
from console.setup.systems import SYSTEMS
from integration.models import MessageError
from integration.selectors.setup import takers


def mend_of(error: MessageError, user: User | AnonymousUser) -> Button | None:
    """Return the link for this failure, or None where there is no such page or right."""
    match error.code:
        case "UNKNOWN_SERVICE" if not SERVICES.hindrance(user, founds=True):
            query = urlencode({"interface": error.interface})
            return Button(f"{reverse('service-new')}?{query}", "Register the service")
        case "SERVICE_DISABLED" if not SERVICES.hindrance(user):
            return _service(error.interface)
        case "SYSTEM_DISABLED" if error.queue.system_id and not SYSTEMS.hindrance(user):
            return Button(reverse("system", args=[error.queue.system_id]), "Open the system")
    return None


def _service(interface: str) -> Button | None:
    """Its page; it may have been deleted since."""
    number = takers.number_of(interface)
    return None if number is None else Button(reverse("service", args=[number]), "Open the service")
