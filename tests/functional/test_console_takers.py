"""Whoever takes from somebody's access is judged by what they may do at that moment."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection
from django.http import HttpResponseBase
from django.test import RequestFactory
from django.urls import resolve, reverse
from psycopg.errors import LockNotAvailable

from console.layout.access import Right, has
from console.models import CompanyIdentity, ConsoleSession, Limit, PersonalToken, SecondFactor
from integration.store.sessions import database_now, raw_connection
from tests.support.operator_api import a_program
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ALL = {"identity", "second factor", "session", "token"}


@pytest.fixture
def otto() -> User:
    """Somebody with everything by which one comes in."""
    person, now = a_program("Editors").person, database_now()
    SecondFactor.objects.create(person=person, kind="app", name="Mine", created_at=now)
    ConsoleSession.objects.create(person=person, session_key="k", began_at=now, seen_at=now)
    CompanyIdentity.objects.create(person=person, issuer="https://id", subject="7", seen_at=now)
    return person


def left(person: User) -> set[str]:
    """What of it the person still has."""
    rows = {
        "identity": CompanyIdentity.objects.filter(person=person),
        "second factor": SecondFactor.objects.filter(person=person),
        "session": ConsoleSession.objects.filter(person=person),
        "token": PersonalToken.objects.filter(person=person, revoked_at__isnull=True),
    }
    return {name for name, found in rows.items() if found.exists()}


class Taking:
    """An address at which something is taken from somebody; `takes` is what."""

    def __init__(self, name: str, *takes: str) -> None:
        self.name, self.takes = name, set(takes)

    def __call__(self, by: User, person: User) -> HttpResponseBase:
        """Post it as `by`, who was loaded when the request began."""
        parts = [person.pk]
        if self.name == "person-token-revoke":
            parts.append(PersonalToken.objects.get(person=person).pk)
        match = resolve(reverse(self.name, args=parts))
        request: Any = RequestFactory().post(match.route, {"reason": "left"})
        request.user, request.session = by, SessionStore()
        request._messages = FallbackStorage(request)
        answer: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        return answer


@pytest.fixture(
    params=[
        Taking("person-token-revoke", "token"),
        Taking("person-sessions-end", "session"),
        Taking("person-second-factors-remove", "second factor"),
        Taking("person-company-disconnect", "identity", "session", "token"),
    ],
    ids=lambda taking: taking.name,
)
def taking(request: pytest.FixtureRequest) -> Taking:
    found: Taking = request.param
    return found


@pytest.fixture
def adam() -> User:
    """An administrator, as a request has loaded them, whose rights were asked for."""
    person = a_person("Administrators", "adam")
    assert has(person, Right.PEOPLE)
    assert person.get_all_permissions()
    return person


def without(right: Right) -> None:
    """Somebody takes this right from administrators."""
    permission = Permission.objects.get(codename=right.permission.split(".")[1])
    Group.objects.get(name="Administrators").permissions.remove(permission)


def test_who_may_do_it_does_it(taking: Taking, adam: User, otto: User) -> None:
    assert taking(adam, otto).status_code == 303
    assert left(otto) == ALL - taking.takes


def test_a_right_that_was_taken_meanwhile_does_not_count(
    taking: Taking, adam: User, otto: User
) -> None:
    without(Right.PEOPLE)
    with pytest.raises(PermissionDenied):
        taking(adam, otto)
    assert left(otto) == ALL


def test_who_is_above_by_now_is_left_alone(taking: Taking, adam: User, otto: User) -> None:
    without(Right.EDIT_PAYLOAD)
    assert taking(adam, otto).status_code == 303
    assert left(otto) == ALL


def test_who_was_limited_meanwhile_takes_nothing(taking: Taking, adam: User, otto: User) -> None:
    Limit.objects.create(person=adam)
    assert taking(adam, otto).status_code == 303
    assert left(otto) == ALL


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", ["adam", "otto"])
def test_who_changes_either_of_them_is_waited_for(
    taking: Taking, adam: User, otto: User, held: str
) -> None:
    number = adam.pk if held == "adam" else otto.pk
    with raw_connection("the other one") as other, other.transaction(), connection.cursor() as mine:
        other.execute(f"SELECT FROM auth_user WHERE id = {number} FOR NO KEY UPDATE")
        mine.execute("SET lock_timeout = '200ms'")
        try:
            with pytest.raises(OperationalError) as refused:
                taking(adam, otto)
        finally:
            mine.execute("RESET lock_timeout")
    assert isinstance(refused.value.__cause__, LockNotAvailable)
    assert left(otto) == ALL
