"""What the console answers to what it cannot take."""

import pytest
from django.urls import reverse

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def test_a_nul_character_is_refused_in_words(admin_client):
    answer = admin_client.get(reverse("failures"), {"queue": "a\x00b"})
    assert answer.status_code == 400
    assert "NUL character" in answer.content.decode()


def test_an_unknown_address_is_told_in_words(admin_client):
    answer = admin_client.get("/nowhere/")
    assert answer.status_code == 404
    assert "There is no page at this address." in answer.content.decode()
    assert "Resolver404" not in answer.content.decode()
