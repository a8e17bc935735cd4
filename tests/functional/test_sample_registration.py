"""The example of fault-tolerant messaging: the database is away, and nobody is turned away."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from integration.models import MessageError, Queue
from integration.testing import run_handler
from sample import names, registration
from sample.models import Registration
from tests.support.builders import a_provider

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def test_people_register_while_the_database_is_away_and_each_is_there_once(servers):
    a_provider(servers.kafka_bootstrap, names.PROVIDER)
    account = registration.play(1.5)
    assert account.is_right, account
    assert account.while_away > 3, account
    assert account.accepted == Registration.objects.filter(needs_a_call=False).count()
    assert not MessageError.objects.exists()
    assert Queue.objects.get(name=names.REGISTRATIONS).partitions.get().next_offset > 0


def test_without_the_sample_it_says_what_is_missing(servers):
    with pytest.raises(CommandError, match="seed_sample"):
        call_command("sample_registration", stdout=StringIO())


def test_a_registration_without_an_address_waits_for_a_person(db):
    outcome = run_handler(names.REGISTRATION, {"name": "nobody"})
    assert outcome.failure is not None
    assert not Registration.objects.exists()
