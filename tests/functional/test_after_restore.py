"""A copied database tells what it would do, and acts only when a person says so."""

from io import StringIO

import pytest
from django.core.management import call_command

from integration.models import Deployment

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("after_restore", *arguments, stdout=out)
    return out.getvalue()


def test_a_copy_is_shown_and_taken_over_only_on_request(settings):
    Deployment.objects.update_or_create(
        pk=1, defaults={"name": "sluice", "environment": "production", "canary": "x"}
    )
    Deployment.objects.exclude(pk=1).delete()
    settings.SLUICE_ENVIRONMENT = "rehearsal"

    assert "belongs to 'production'" in said()
    assert Deployment.objects.get().environment == "production"
    assert "now belongs to 'rehearsal'" in said("--act-here")
    assert Deployment.objects.get().environment == "rehearsal"
    assert "may act" in said()
