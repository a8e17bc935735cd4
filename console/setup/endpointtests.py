"""The Test of an endpoint, from its page: connect only, or send a sample."""

from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse

from console.layout.access import Right, needs
from console.layout.answers import actor_of, see
from console.setup.endpoints import ENDPOINTS
from console.setup.pages import found_row, refuse, show_card
from integration.actions import endpoint_test
from integration.actions.configuration import Author
from integration.actions.endpoint_test import Sample
from integration.models import EndpointTest

TEXT: Final = 200


@needs(Right.VIEW, Right.CONFIGURE)
def run(request: HttpRequest, number: int) -> HttpResponse:
    """Test it now; its page again, with what was found on top of its history.

    `kind=sample` sends `body`; anything else connects only.
    """
    row = found_row(request, ENDPOINTS, number)
    refuse(ENDPOINTS.hindrance(request.user))
    if request.method != "POST":
        return see("endpoint", number)
    author = Author(actor_of(request), "Test of the endpoint")
    if request.POST.get("kind") != "sample":
        _tell(request, endpoint_test.try_connection(row, author))
        return see("endpoint", number)
    sample = Sample(
        body=request.POST.get("body", ""),
        interface=request.POST.get("interface", "").strip()[:TEXT] or "TEST",
        key=request.POST.get("key", "").strip()[:TEXT] or "TEST",
    )
    if mistake := endpoint_test.mistake_in(sample):
        return show_card(request, ENDPOINTS, row, status=422, sample=sample, sample_mistake=mistake)
    _tell(request, endpoint_test.try_sample(row, author, sample))
    return see("endpoint", number)


def _tell(request: HttpRequest, found: EndpointTest) -> None:
    """The page shows all of it; the sentence above is for those who do not scroll."""
    if found.is_good:
        messages.success(request, f"{found.get_kind_display()}: good. {found.text}")
    else:
        messages.warning(request, f"{found.get_kind_display()}: {found.text}")
