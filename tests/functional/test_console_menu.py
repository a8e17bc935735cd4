"""The menu shows what its person can open, and nothing that turns them away."""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from console.layout.access import ROLES, Right
from console.layout.navigation import MENU
from console.models import Limit
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def menu_of(person: User) -> tuple[Client, dict[str, str]]:
    """The person's browser, and the entries of their menu: address by label."""
    client = Client()
    client.force_login(person)
    page = client.get(reverse("account")).text
    _, _, rest = page.partition('<nav id="menu"')
    nav, _, _ = rest.partition("</nav>")
    found = re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)', nav)
    return client, {label.strip(): address for address, label in found}


@pytest.mark.parametrize("is_limited", [False, True])
def test_every_entry_opens_for_those_who_have_it(is_limited: bool) -> None:
    """An entry is opened by the first role that has it; the others: test_console_access.py."""
    opened: set[str] = set()
    for role in ["", *ROLES]:
        person = a_person(role)
        if is_limited:
            Limit.objects.create(person=person)
        client, menu = menu_of(person)
        assert bool(menu) is bool(role), "who may see nothing has no entry"
        for label in set(menu) - opened:
            answer = client.get(menu[label], follow=True)
            assert answer.status_code == 200, (role, label)
        opened |= set(menu)
        whole_only = {"Cleanup", "People", "Restore"} & set(menu)
        assert not (is_limited and whole_only)


def test_who_may_do_everything_and_is_not_limited_has_all_entries() -> None:
    _, menu = menu_of(a_person("Administrators"))
    assert {"Overview", "Cleanup", "New partner", "Changes", "People", "Restore"} <= set(menu)
    assert set(menu) == {page.label for pages in MENU.values() for page in pages}


def test_a_right_that_another_page_needs_too_opens_nothing_alone() -> None:
    person = User.objects.create_user("cora")
    _, codename = Right.CONFIGURE.permission.split(".")
    person.user_permissions.add(Permission.objects.get(codename=codename))
    client, menu = menu_of(person)
    assert menu == {}
    assert client.get(reverse("partner-new")).status_code == 403
