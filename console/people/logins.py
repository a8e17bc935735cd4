"""The one door into the console and out of it, also for who comes from Django's admin."""

from http import HTTPStatus
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse, reverse_lazy
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from console.layout import trail
from console.layout.access import needs
from console.layout.answers import see
from console.layout.trail import address_of
from console.people import sessions
from console.people.second import enforcing, factors, step
from console.people.tries import TooManyLoginsError, count_try, forgive
from integration.actions import configuration
from integration.actions.access import Act
from integration.actions.configuration import Author

NO_PASSWORDS = (
    "This installation does not take passwords (SLUICE_LOCAL_LOGIN=0). Use the company login."
)


class Login(LoginView):
    """Django's login, with a limit of tries."""

    template_name = "console/people/login.html"
    next_page = reverse_lazy("overview")  # type: ignore[assignment] # a text, later
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        offered = {
            "company": settings.SLUICE_OIDC_LABEL if settings.SLUICE_OIDC_ISSUER else "",
            "takes_passwords": settings.SLUICE_LOCAL_LOGIN,
        }
        return {**super().get_context_data(**kwargs), **offered}

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not settings.SLUICE_LOCAL_LOGIN:
            raise PermissionDenied(NO_PASSWORDS)
        try:
            count_try(_name(request), address_of(request))
        except TooManyLoginsError as problem:
            trail.note_login(request, Act.LOGIN_REFUSED, _name(request))
            # Not bound: a bound form would look at the password.
            form = self.form_class(request, initial={"username": _name(request)})
            return _refused(self, form, problem)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        person = form.get_user()
        if not settings.SLUICE_IS_GUEST and factors.has_one(person):
            # The try stays counted: else a known password would allow any number of codes.
            return step.begin(self.request, person, _name(self.request), self.get_redirect_url())
        forgive(_name(self.request), address_of(self.request))
        answer = super().form_valid(form)
        if not settings.SLUICE_IS_GUEST:
            enforcing.note(self.request, person)
        trail.note_login(self.request, Act.LOGIN, person.get_username())
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        trail.note_login(self.request, Act.LOGIN_FAILED, _name(self.request))
        return super().form_invalid(form)


class Logout(LogoutView):
    """Django's logout, with its row of audit."""

    next_page = reverse_lazy("login")  # type: ignore[assignment] # a text, later

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        name = request.user.get_username()
        answer = super().post(request, *args, **kwargs)
        if name:
            trail.note_logout(request, name)
        return answer


class PasswordChange(PasswordChangeView):
    """Django's change of one's own password; the other sessions of the person end with it."""

    success_url = reverse_lazy("account")
    template_name = "console/people/password.html"

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        # Whoever sits at a session of somebody else must not guess the password without end.
        name = request.user.get_username()
        try:
            count_try(name, address_of(request))
        except TooManyLoginsError as problem:
            trail.note_login(request, Act.LOGIN_REFUSED, name)
            # Not bound: see above.
            return _refused(self, self.form_class(cast("User", request.user)), problem)
        return super().post(request, *args, **kwargs)

    def form_invalid(self, form: PasswordChangeForm) -> HttpResponse:
        name = form.user.get_username()
        if "old_password" in form.errors:
            trail.note_login(self.request, Act.LOGIN_FAILED, name)
        else:
            # Only the new one was not good enough.
            forgive(name, address_of(self.request))
        return super().form_invalid(form)

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        before = self.request.session.session_key
        name = form.user.get_username()
        forgive(name, address_of(self.request))
        with transaction.atomic():
            answer = super().form_valid(form)
            configuration.record(
                form.user,
                {"password": configuration.SET},
                {"password": configuration.SET_ANEW},
                Author(name),
            )
        after = self.request.session.session_key
        is_known = sessions.moved(before, after)
        sessions.end(form.user, but=after)
        if not is_known:
            # Somebody ended it while this waited: under its new key it would be on no list.
            logout(self.request)
            return see("login")
        return answer


def _refused(view: Any, form: Form, problem: TooManyLoginsError) -> HttpResponse:
    """The view's own page with the form, as the answer to one try too many."""
    context = view.get_context_data(form=form, problem=problem)
    answer: HttpResponse = view.render_to_response(context, status=HTTPStatus.TOO_MANY_REQUESTS)
    answer["Retry-After"] = str(problem.seconds_left)
    return answer


def admin_login(request: HttpRequest) -> HttpResponse:
    """Django's admin has a login of its own, which counts nothing: lead to the console's."""
    wanted = request.GET.get("next", "")
    if not url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()):
        wanted = reverse("admin:index")
    if not request.user.is_authenticated:
        return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': wanted})}")
    if request.user.is_staff:
        return HttpResponseRedirect(wanted)
    # The console's login would send somebody who is logged in back here, again and again.
    raise PermissionDenied(
        "Your account may not use the admin pages. Ask an administrator for access."
    )


@needs()
def admin_password(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Django's admin has a form of its own, which counts and records nothing: see the console's."""
    return see("password_change")


def _name(request: HttpRequest) -> str:
    return request.POST.get("username", "")
