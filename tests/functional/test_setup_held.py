"""What was put on hold while a system or service was off, released from its page in one click."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from integration.models import EnterpriseService, ExternalSystem, MessageError, Operation
from tests.support.operations import run
from tests.support.rows import a_held, a_place, a_queue_row
from tests.support.set_up import limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

CODES = {"service": "SERVICE_DISABLED", "system": "SYSTEM_DISABLED"}
NOUNS = list(CODES)


def some_held(system: ExternalSystem, code: str, *offsets: int) -> list[MessageError]:
    queue = a_queue_row("continuous", system=system)
    a_place(queue)
    return [a_held(queue, offset, interface="MXOFF", code=code) for offset in offsets]


def off(noun: str) -> tuple[Any, list[MessageError]]:
    """What is off, with two messages of it on hold and one that failed for something else."""
    system = ExternalSystem.objects.create(name="acme", enabled=noun != "system")
    service = EnterpriseService.objects.create(interface="MXOFF", enabled=noun != "service")
    rows = some_held(system, CODES[noun], 10, 11)
    a_held(rows[0].queue, 12, interface="MXOFF", code="BAD_VALUE")
    return (service if noun == "service" else system), rows


def card(client: Client, noun: str, row: Any) -> str:
    return client.get(reverse(noun, args=[row.pk])).text


def click(client: Client, noun: str, row: Any, **more: Any) -> Any:
    return client.post(reverse(f"{noun}-release", args=[row.pk]), **more)


def states() -> list[str]:
    return sorted(MessageError.objects.values_list("state", flat=True))


@pytest.mark.parametrize("noun", NOUNS)
def test_switched_on_its_page_offers_what_was_held_and_one_click_releases_that(noun: str) -> None:
    client, (row, _) = logged_in("Administrators"), off(noun)
    assert f"{noun}s/{row.pk}/releases/" not in card(client, noun, row)
    page = client.post(
        reverse(f"{noun}-switch", args=[row.pk]), {"to": "on", "sure": "1"}, follow=True
    ).text
    assert "2 messages were put on hold while it was off" in page
    assert reverse(f"{noun}-release", args=[row.pk]) in page
    answer = click(client, noun, row)
    operation = Operation.objects.get()
    assert answer["Location"] == reverse("operation", args=[operation.pk])
    assert (operation.state, operation.total) == ("RUNNING", 2)
    assert operation.reason
    run(operation)
    assert states() == ["HOLD", "READY", "READY"]
    assert reverse(f"{noun}-release", args=[row.pk]) not in card(client, noun, row)


@pytest.mark.parametrize("noun", NOUNS)
def test_a_second_click_leads_to_the_same_operation_or_to_nothing(noun: str) -> None:
    client, (row, _) = logged_in("Administrators"), off(noun)
    type(row).objects.update(enabled=True)
    addresses = {click(client, noun, row)["Location"] for _ in range(2)}
    operation = Operation.objects.get()
    assert addresses == {reverse("operation", args=[operation.pk])}
    run(operation)
    answer = click(client, noun, row, follow=True)
    assert answer.redirect_chain == [(reverse(noun, args=[row.pk]), 303)]
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("noun", NOUNS)
def test_what_is_still_off_releases_nothing(noun: str) -> None:
    client, (row, _) = logged_in("Administrators"), off(noun)
    answer = click(client, noun, row, follow=True)
    assert f"{row} is switched off" in answer.text
    assert (states(), Operation.objects.count()) == (["HOLD"] * 3, 0)


@pytest.mark.parametrize("noun", NOUNS)
def test_nothing_is_offered_without_the_right_and_where_nothing_is_held(noun: str) -> None:
    row, rows = off(noun)
    type(row).objects.update(enabled=True)
    viewer = logged_in("Viewers")
    release = reverse(f"{noun}-release", args=[row.pk])
    assert release not in card(viewer, noun, row)
    assert click(viewer, noun, row).status_code == 403
    MessageError.objects.filter(pk__in=[one.pk for one in rows]).update(state="RESOLVED")
    assert release not in card(logged_in("Operators"), noun, row)
    assert not Operation.objects.exists()


def test_a_person_releases_within_their_reach_alone() -> None:
    service, rows = off("service")
    EnterpriseService.objects.update(enabled=True)
    theirs = some_held(ExternalSystem.objects.create(name="others"), "SERVICE_DISABLED", 7)
    mine = limited_to(rows[0].queue.system)
    assert "2 messages were put on hold" in card(mine, "service", service)
    click(mine, "service", service)
    run(Operation.objects.get())
    theirs[0].refresh_from_db()
    assert (theirs[0].state, states()) == ("HOLD", ["HOLD", "HOLD", "READY", "READY"])
    # What somebody else has released of more than one's own is no page of one's own.
    MessageError.objects.update(state="HOLD")
    whole = click(logged_in("Operators"), "service", service)["Location"]
    assert click(mine, "service", service)["Location"] != whole
    hidden = ExternalSystem.objects.get(name="others")
    assert click(mine, "system", hidden).status_code == 404
