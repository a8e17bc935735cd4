"""Who may see and do what, over HTTP: roles, forged requests, and headers of every answer."""

from html import unescape
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.test import Client
from django.urls import reverse

from console.layout.access import ROLES, Right, has, scope_of
from console.models import Limit
from integration.models import ExternalSystem, MessageError, Queue
from integration.selectors.scope import EVERYTHING, Scope
from tests.support.rows import a_blocked_queue, a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def logged_in(role: str = "") -> Client:
    client = Client()
    client.force_login(a_person(role))
    return client


def pages(queue: Queue, error: MessageError) -> list[str]:
    return [
        reverse("overview"),
        reverse("queue", args=[queue.name]),
        reverse("failures"),
        reverse("failure", args=[error.pk]),
        reverse("cron"),
    ]


def verbs(queue: Queue, error: MessageError) -> list[str]:
    of_queue = (
        *("pause", "resume", "enable", "disable", "adopt-start", "adopt-end", "stay"),
        *("stop-at", "cancel-stop", "begin-sooner", "position"),
    )
    of_failure = ("release", "hold", "delete", "restore")
    return [
        *(reverse(name, args=[queue.name]) for name in of_queue),
        *(reverse(name, args=[error.pk]) for name in of_failure),
        reverse("acknowledge-gap", args=[queue.name, uuid4()]),
        reverse("review"),
        reverse("run-now", args=[1]),
    ]


def test_a_person_has_the_rights_that_django_counts() -> None:
    several = a_person("Operators")
    several.groups.add(Group.objects.get(name="Editors"))
    several.user_permissions.add(Permission.objects.get(codename="manage_people"))
    people = [*map(a_person, ["", *ROLES]), several, User.objects.create_superuser("root")]
    people.append(a_person("Administrators"))
    people.append(User.objects.create_superuser("gone"))
    User.objects.filter(pk__in=[one.pk for one in people[-2:]]).update(is_active=False)
    for one in [*User.objects.all(), AnonymousUser()]:
        told = {right for right in Right if has(one, right)}
        assert told == {right for right in Right if one.has_perm(right.permission)}, one
    assert {right for right in Right if has(several, right)} >= {Right.PEOPLE, Right.OPERATE}


class OwnBackend(BaseBackend):
    """An installation's own: it knows people's rights from elsewhere."""

    def get_all_permissions(self, user_obj: User, obj: object = None) -> set[str]:
        return {Right.OPERATE.permission}


def test_an_installations_own_backend_gives_rights(settings: LazySettings) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.{OwnBackend.__name__}"]
    assert [right for right in Right if has(a_person("Viewers"), right)] == [Right.OPERATE]


def test_a_person_knows_of_what_their_limit_names() -> None:
    system = ExternalSystem.objects.create(name="eam")
    nothing, one, root = a_person(), a_person(), User.objects.create_superuser("root")
    for person in (nothing, one, root):
        Limit.objects.create(person=person)
    one.sluice_limit.systems.add(system)
    assert scope_of(a_person()) == scope_of(root) == EVERYTHING
    assert scope_of(one) == Scope(frozenset({system.pk}))
    assert scope_of(nothing) == scope_of(AnonymousUser()) == Scope(frozenset())


def test_strangers_are_asked_to_log_in() -> None:
    queue, _, error = a_blocked_queue()
    for address in [*pages(queue, error), reverse("edit", args=[error.pk])]:
        answer = Client().get(address)
        assert answer.status_code == 302
        assert answer["Location"].startswith(reverse("login"))


def test_an_account_without_a_role_is_told_which_right_is_missing() -> None:
    queue, _, error = a_blocked_queue()
    client = logged_in()
    for address in pages(queue, error):
        answer = client.get(address)
        assert answer.status_code == 403
        assert Right.VIEW.missing in unescape(answer.text)


def test_a_viewer_sees_every_page_and_disabled_buttons_and_may_do_nothing() -> None:
    queue, _, error = a_blocked_queue()
    client = logged_in("Viewers")
    for address in pages(queue, error):
        assert client.get(address).status_code == 200
    page = client.get(reverse("failure", args=[error.pk])).text
    assert Right.OPERATE.missing in page
    for address in verbs(queue, error):
        assert client.post(address, {"version": 1, "reason": "x"}).status_code == 403
    error.refresh_from_db()
    queue.refresh_from_db()
    assert (error.version, queue.paused, queue.enabled) == (1, False, True)


def test_payload_key_and_headers_are_hidden_without_their_own_right() -> None:
    _, _, error = a_blocked_queue()
    address = reverse("failure", args=[error.pk])
    operator, editor = logged_in("Operators"), logged_in("Editors")
    hidden, shown = operator.get(address).text, editor.get(address).text
    for secret in ("assetnum", "P-1", "source"):
        assert secret in shown
        assert secret not in hidden
    assert Right.VIEW_PAYLOAD.missing in hidden
    for name in ("record", "edit"):
        assert operator.get(reverse(name, args=[error.pk])).status_code == 403
        assert editor.get(reverse(name, args=[error.pk])).status_code == 200


def test_a_record_is_a_download_the_browser_does_not_render() -> None:
    _, _, error = a_blocked_queue()
    answer = logged_in("Editors").get(reverse("record", args=[error.pk]))
    assert answer.content == bytes(error.payload)
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")


def test_a_forged_post_changes_nothing() -> None:
    queue, _, error = a_blocked_queue()
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_person("Editors"))
    for address in verbs(queue, error):
        answer = client.post(address, {"version": 1, "reason": "x"})
        assert answer.status_code == 403
        assert "The form is out of date" in answer.text
    error.refresh_from_db()
    assert error.version == 1


def test_following_a_verb_by_a_link_changes_nothing() -> None:
    queue, _, error = a_blocked_queue()
    client = logged_in("Editors")
    for address in verbs(queue, error):
        answer = client.get(address)
        # The positions have a page at the address of their verb.
        is_page = address == reverse("position", args=[queue.name])
        assert answer.status_code in ({200} if is_page else {303, 404})
    error.refresh_from_db()
    queue.refresh_from_db()
    assert (error.version, queue.paused) == (1, False)


def test_every_answer_forbids_inline_and_foreign_content() -> None:
    queue, _, error = a_blocked_queue()
    client = logged_in("Editors")
    for address in [*pages(queue, error), "/nowhere/", reverse("healthz")]:
        answer = client.get(address)
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer["Cache-Control"] == "no-store"
        assert answer["X-Frame-Options"] == "DENY"
        body = answer.text
        assert " style=" not in body
        assert " onclick=" not in body
        assert "<style" not in body
        assert "//cdn" not in body


def test_the_next_page_is_never_another_site() -> None:
    queue, _, _ = a_blocked_queue()
    client = logged_in("Operators")
    answer = client.post(reverse("pause", args=[queue.name]), {"next": "//evil.example/"})
    assert answer["Location"] == reverse("queue", args=[queue.name])


def test_the_theme_is_remembered_without_javascript() -> None:
    client = logged_in("Viewers")
    answer = client.post(reverse("theme"), {"theme": "dark", "next": "/failures/"})
    assert (answer.status_code, answer["Location"]) == (303, "/failures/")
    assert 'data-bs-theme="dark"' in client.get("/").text
    client.post(reverse("theme"), {"theme": '"><script>'})
    assert 'data-bs-theme="dark"' in client.get("/").text
