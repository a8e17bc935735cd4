"""The addresses of a project that has pages of its own and Sluice below /ops/."""

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import include, path, reverse


def page(request: HttpRequest) -> HttpResponse:
    """A page of the project's, by names that the console has, too."""
    return HttpResponse(f"the project: {reverse('login')} {reverse('queues')}")


def framed(request: HttpRequest) -> HttpResponse:
    """What the console's pages have around them, as a page that is none of them is told of it."""
    page = engines["django"].from_string("<{{ environment }}{{ may }}{{ menu }}>")
    return HttpResponse(page.render({}, request))


urlpatterns = [
    path("login/", page, name="login"),
    path("queues/", page, name="queues"),
    path("framed/", framed),
    path("ops/", include("sluice.urls")),
]
