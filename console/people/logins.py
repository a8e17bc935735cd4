"""The one door into the console and out of it, also for who comes from Django's admin.

How often somebody may try is counted by name and by address, in Valkey.
"""

import hashlib
import logging
import unicodedata
from http import HTTPStatus
from typing import Any, ClassVar, Final

import redis
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse, reverse_lazy
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from console.layout import trail
from console.layout.trail import address_of
from integration.actions.access import Act
from integration.errors import IntegrationError
from integration.http_api.pace import counters

log = logging.getLogger(__name__)
# Many people may share an address, behind an office's router; nobody shares a name.
NAMES_OF_AN_ADDRESS: Final = 5


class TooManyLoginsError(IntegrationError):
    """Too many logins failed under this name, or from this address."""

    code: ClassVar[str] = "TOO_MANY_LOGINS"

    def __init__(self, seconds_left: int) -> None:
        minutes = -(-seconds_left // 60)
        super().__init__(
            "Too many logins failed for this name or from this address, so no password is "
            "checked for now.",
            next_step=f"Try again in {minutes} minute{'' if minutes == 1 else 's'}.",
        )
        self.seconds_left = seconds_left


class Login(LoginView):
    """Django's login, with a limit of tries."""

    template_name = "console/people/login.html"
    next_page = reverse_lazy("overview")  # type: ignore[assignment] # a text, later
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            _count_try(_name(request), address_of(request))
        except TooManyLoginsError as problem:
            trail.note_login(request, Act.LOGIN_REFUSED, _name(request))
            # Not bound: a bound form would look at the password.
            form = self.form_class(request, initial={"username": _name(request)})
            context = self.get_context_data(form=form, problem=problem)
            answer = self.render_to_response(context, status=HTTPStatus.TOO_MANY_REQUESTS)
            answer["Retry-After"] = str(problem.seconds_left)
            return answer
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        _forgive(_name(self.request), address_of(self.request))
        answer = super().form_valid(form)
        trail.note_login(self.request, Act.LOGIN, form.get_user().get_username())
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


def _name(request: HttpRequest) -> str:
    return request.POST.get("username", "")


def _count_try(name: str, address: str) -> None:
    """Count a try before its password is looked at, so that tries made at once are counted, too.

    Raises TooManyLoginsError beyond the number of tries. Without Valkey nobody is refused: people
    need the console most when something is down.
    """
    most = settings.SLUICE_LOGIN_TRIES
    try:
        waits = [_wait(_key("name", name), most)]
        # A server on a Unix socket names no peer; then only the name is counted.
        if address:
            waits.append(_wait(_key("address", address), most * NAMES_OF_AN_ADDRESS))
    except redis.RedisError as failure:
        _log(failure)
        return
    if any(waits):
        raise TooManyLoginsError(max(waits))


def _forgive(name: str, address: str) -> None:
    """The login succeeded: forget the name's failures, and do not count this try as one."""
    window = settings.SLUICE_LOGIN_WINDOW_SECONDS
    try:
        pipeline = counters(settings.SLUICE_CELERY_BROKER_URL).pipeline(transaction=False)
        pipeline.delete(_key("name", name))
        # A window that ended meanwhile would leave a number below 0 that never expires.
        pipeline.set(_key("address", address), 1, ex=window, nx=True)
        pipeline.decr(_key("address", address))
        pipeline.execute()
    except redis.RedisError as failure:
        _log(failure)


def _wait(key: str, most: int) -> int:
    """Count one; for how many seconds there is to wait, 0 = not at all."""
    client: Any = counters(settings.SLUICE_CELERY_BROKER_URL)
    pipeline = client.pipeline(transaction=True)
    # The window begins with its first try and is not prolonged by those refused in it.
    pipeline.set(key, 0, ex=settings.SLUICE_LOGIN_WINDOW_SECONDS, nx=True)
    pipeline.incr(key)
    pipeline.ttl(key)
    _, tries, left = pipeline.execute()
    return max(int(left), 1) if int(tries) > most else 0


def _key(kind: str, value: str) -> str:
    # Who types a password into the field of the name does not find it in Valkey.
    same = unicodedata.normalize("NFKC", value).casefold().encode()
    return f"sluice:login:{kind}:{hashlib.sha256(same).hexdigest()[:32]}"


def _log(failure: Exception) -> None:
    log.warning("logins are not counted: Valkey does not answer (%s)", type(failure).__name__)
