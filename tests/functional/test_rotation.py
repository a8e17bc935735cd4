"""Key rotation: what an older key encrypted opens with the first one alone afterwards."""

from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import connection

from crontasks.copies import can_read_secrets, claim_database
from crontasks.models import CronInstance
from integration.models import Deployment, Provider
from integration.models.fields import SecretUnreadableError
from integration.sealed import unseal

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

OLD, NEW, FOREIGN = (Fernet.generate_key().decode() for _ in range(3))


def rotate() -> tuple[int, str]:
    said = StringIO()
    try:
        call_command("rotate_secrets", stdout=said)
    except SystemExit as end:
        return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def a_provider(name: str, **secrets: str) -> Provider:
    return Provider.objects.create(name=name, bootstrap_servers="127.0.0.1:1", **secrets)


def as_stored(provider: Provider) -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT password, client_key FROM integration_provider WHERE id = %s", [provider.pk]
        )
        return tuple(cursor.fetchone())


@pytest.fixture(autouse=True)
def old_installation(settings: Any) -> None:
    settings.SLUICE_ENCRYPTION_KEYS = (OLD,)
    Deployment.objects.all().delete()
    claim_database()


def test_afterwards_the_old_key_can_go(settings: Any) -> None:
    first = a_provider("first", password="s3cret", client_key="PEM")
    second = a_provider("second", password="other")
    settings.SLUICE_ENCRYPTION_KEYS = (NEW, OLD)

    status, said = rotate()

    assert status == 0
    assert "provider password: 2 encrypted anew, 0 were already, 0 cannot be read" in said
    assert "provider client key: 1 encrypted anew" in said
    assert "deployment canary: 1 encrypted anew" in said
    assert "s3cret" not in said
    settings.SLUICE_ENCRYPTION_KEYS = (NEW,)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.password, first.client_key) == ("s3cret", "PEM")
    assert (second.password, second.client_key) == ("other", "")
    assert can_read_secrets()


def test_a_second_time_changes_nothing(settings: Any) -> None:
    provider = a_provider("first", password="s3cret")
    settings.SLUICE_ENCRYPTION_KEYS = (NEW, OLD)
    rotate()
    before = as_stored(provider)

    status, said = rotate()

    assert status == 0
    assert "provider password: 0 encrypted anew, 1 were already" in said
    assert as_stored(provider) == before


def test_what_no_key_opens_is_named_and_left_alone(settings: Any) -> None:
    settings.SLUICE_ENCRYPTION_KEYS = (FOREIGN,)
    lost = a_provider("lost", password="gone")
    settings.SLUICE_ENCRYPTION_KEYS = (OLD,)
    kept = a_provider("kept", password="s3cret")
    before = as_stored(lost)
    settings.SLUICE_ENCRYPTION_KEYS = (NEW, OLD)

    status, said = rotate()

    assert status == 1
    assert f"provider password of row {lost.pk}" in said
    assert as_stored(lost) == before
    settings.SLUICE_ENCRYPTION_KEYS = (NEW,)
    kept.refresh_from_db()
    assert kept.password == "s3cret"
    with pytest.raises(SecretUnreadableError):
        lost.refresh_from_db()


def test_secrets_among_the_parameters_of_schedules_are_encrypted_anew_too(settings: Any) -> None:
    given = {"name": "ours", "token": "s3cret"}
    made = CronInstance.objects.create(
        name="Typed", task="typed", interval_seconds=60, parameters=given
    )
    settings.SLUICE_ENCRYPTION_KEYS = (NEW, OLD)

    assert "cron instance parameters: 1 encrypted anew" in rotate()[1]

    settings.SLUICE_ENCRYPTION_KEYS = (NEW,)
    stored = CronInstance.objects.get(pk=made.pk).parameters
    assert unseal(stored["token"]) == "s3cret"
    assert stored["name"] == "ours"
