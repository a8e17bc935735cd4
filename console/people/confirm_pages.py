"""The page that asks a person who is logged in for the login once more."""

from http import HTTPStatus
from typing import cast

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout import trail
from console.layout.access import needs
from console.layout.answers import SeeOther, own_page, see
from console.layout.trail import address_of
from console.people.recent import confirm
from console.people.sessions import WAY, Way
from console.people.tries import TooManyLoginsError, count_try, forgive
from integration.actions.access import Act


@needs()
def confirm_page(request: HttpRequest) -> HttpResponse:
    """Ask for the password, or offer the company login; then see the page named by `next`."""
    person = cast("User", request.user)
    asked = request.POST if request.method == "POST" else request.GET
    by_company = request.session.get(WAY) == Way.COMPANY
    context = {
        "next": own_page(asked.get("next", "")),
        "company": settings.SLUICE_OIDC_LABEL if settings.SLUICE_OIDC_ISSUER else "",
        "by_company": by_company,
        "takes_passwords": settings.SLUICE_LOCAL_LOGIN and person.has_usable_password(),
    }
    if request.method != "POST" or not context["takes_passwords"]:
        return render(request, "console/people/confirm.html", context)
    name, address = person.get_username(), address_of(request)
    try:
        count_try(name, address)
    except TooManyLoginsError as problem:
        trail.note_login(request, Act.LOGIN_REFUSED, name)
        context["problem"] = problem
        status = HTTPStatus.TOO_MANY_REQUESTS
        return render(request, "console/people/confirm.html", context, status=status)
    if not person.check_password(request.POST.get("password", "")):
        trail.note_login(request, Act.LOGIN_FAILED, name)
        context["is_wrong"] = True
        return render(request, "console/people/confirm.html", context, status=422)
    forgive(name, address)
    confirm(request)
    return SeeOther(str(context["next"])) if context["next"] else see("account")
