"""What a person is told where the database gave a page up, because of others at work in it."""

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from psycopg.errors import DeadlockDetected

from console.layout.access import Right
from console.people import roles
from crontasks.running.outage import is_of_others
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
HELD_UP = 'id="held-up"'
MAY_BE_DONE = 'id="may-be-done"'


@pytest.mark.parametrize(
    ("sqlstate", "status"), [("40P01", 503), ("40001", 503), ("55P03", 503), ("XX000", 500)]
)
def test_who_is_held_up_by_others_is_told_to_do_it_again(sqlstate: str, status: int) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(a_person("Administrators"))
    viewers = Group.objects.get(name="Viewers")
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$; CREATE TRIGGER fails BEFORE INSERT "
            "ON integration_configurationchange FOR EACH ROW EXECUTE FUNCTION fails()"
        )
    asked = {"rights": ["view", "operate"], "seen": roles.stamp(viewers)}
    answer = client.post(reverse("role", args=[viewers.pk]), asked)
    assert answer.status_code == status
    assert ("Retry-After" in answer) == (status == 503)
    assert (HELD_UP in answer.text) == (status == 503)
    assert (MAY_BE_DONE in answer.text) == (status == 500)
    # Nothing is sent again unasked.
    assert 'http-equiv="refresh"' not in answer.text
    assert roles.rights_of(Group.objects.get(name="Viewers")) == {Right.VIEW}


@pytest.mark.parametrize(("sqlstate", "status"), [("40P01", 503), ("XX000", 500)])
def test_a_page_that_is_only_read_loads_itself_again_once_others_are_done(
    sqlstate: str, status: int
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(a_person("Administrators"))
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE integration_configurationchange RENAME TO kept; "
            "CREATE FUNCTION fails() RETURNS int STABLE LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$; CREATE VIEW "
            "integration_configurationchange AS SELECT * FROM kept WHERE fails() = 0"
        )
    answer = client.get(reverse("changes"))
    assert answer.status_code == status
    assert (HELD_UP in answer.text) == (status == 503)
    assert ('http-equiv="refresh"' in answer.text) == (status == 503)
    assert MAY_BE_DONE not in answer.text


def test_a_mistake_made_while_others_are_told_of_stays_a_mistake() -> None:
    deadlock = OperationalError()
    deadlock.__cause__ = DeadlockDetected()
    mistake = KeyError("siteid")
    mistake.__context__ = deadlock
    assert is_of_others(deadlock)
    assert not is_of_others(mistake)
