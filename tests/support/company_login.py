"""The company login as tests see it: a provider that is set up, and what came of a login."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from console.layout.access import scope_of
from console.models import GroupRule
from console.people import accounts
from integration.models import ConfigurationChange, ExternalSystem
from tests.support.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    IdentityProvider,
    an_identity_provider,
)


def who(client: Client) -> str:
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key).username if key else ""


def systems_of(name: str) -> set[str] | None:
    """The external systems that somebody may know of, by name; None: all of them."""
    scope = scope_of(User.objects.get(username=name))
    return None if scope.is_whole else set(accounts.systems_of(scope))


def accesses() -> list[tuple[str, str, str]]:
    rows = ConfigurationChange.every.filter(is_access=True).order_by("pk")
    return [(row.action, row.name, row.reason) for row in rows]


@pytest.fixture
def idp(settings: Any) -> Iterator[IdentityProvider]:
    """Olga is in the group /ops there, which makes her an operator here."""
    with an_identity_provider(groups=["/ops", "/cafeteria"], email="olga@example.org") as provider:
        settings.SLUICE_OIDC_ISSUER = provider.issuer
        settings.SLUICE_OIDC_CLIENT_ID = CLIENT_ID
        settings.SLUICE_OIDC_CLIENT_SECRET = CLIENT_SECRET
        a_rule("/ops", "Operators")
        yield provider


def a_rule(group: str, role: str, *systems: ExternalSystem) -> GroupRule:
    role_here = Group.objects.get(name=role)
    rule = GroupRule.objects.create(group=group, role=role_here, is_limited=bool(systems))
    rule.systems.set(systems)
    return rule
