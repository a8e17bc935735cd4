"""Whoever changes people, roles or rules of groups is judged by what they may do at that moment."""

import pytest
from django.db import transaction

from console.people import accounts
from integration.store.sessions import raw_connection
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.mark.django_db(transaction=True)
def test_who_changes_people_can_have_new_sessions_meanwhile() -> None:
    """A row that refers to an account asks for no more than this lock."""
    adam = a_person("Administrators", "adam")
    with transaction.atomic(), raw_connection("a login") as other, other.transaction():
        accounts.locked(adam)
        shared = f"SELECT id FROM auth_user WHERE id = {adam.pk} FOR KEY SHARE NOWAIT"
        assert other.execute(shared).fetchall() == [(adam.pk,)]
