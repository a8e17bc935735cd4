"""What people decide about one bulk run: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from console.bulk.looking import hindrance
from console.bulk.pages import show, wanted_run
from console.layout.access import Right, needs
from console.layout.answers import actor_of, see, tell_problem
from crontasks.bulk import deciding
from crontasks.bulk.catalogue import CATALOGUE
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.models import BulkRun

Act = Callable[[BulkRun, Author], None]


def _verb(act: Act, done: str) -> Callable[[HttpRequest, UUID], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, bulk_run_id: UUID) -> HttpResponse:
        shown = wanted_run(request, bulk_run_id)
        if request.method != "POST":
            return see("bulk-run", bulk_run_id)
        author = Author(actor_of(request), request.POST.get("reason", "").strip()[:500])
        entry = CATALOGUE.get(shown.run.job)
        if entry is not None and (why := hindrance(request, entry)):
            raise PermissionDenied(why)
        try:
            act(shown.run, author)
        except IntegrationError as problem:
            tell_problem(request, problem)
            return show(request, wanted_run(request, bulk_run_id), status=409)
        messages.success(request, done)
        return see("bulk-run", bulk_run_id)

    return view


cancel = _verb(deciding.stop, "It is being cancelled. What has not been committed counts nothing.")
again = _verb(deciding.run_again, "It waits for the driver again, and goes on where it stopped.")
