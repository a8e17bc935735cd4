"""Tokens of the HTTP API in the console: made, shown once, rotated, revoked, kept apart."""

import json
import shlex
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from integration.actions import tokens
from integration.actions.configuration import Author
from integration.models import (
    ApiToken,
    ChannelTarget,
    ConfigurationChange,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    PublishChannel,
    Queue,
)
from integration.selectors.setup.tokens import services_at
from tests.support import http_api
from tests.support.celery_world import eventually
from tests.support.rows import a_jms_queue_row, a_queue_row
from tests.support.set_up import limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ASKED = {"name": "erp", "may_post": "on", "may_read": "on", "days": "90", "reason": "go-live"}


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


@pytest.fixture
def partner() -> http_api.Partner:
    found = http_api.a_partner()
    found.row.delete()
    return found


def text_in(page: str) -> str:
    return unescape(page.partition('id="token"')[2].partition(">")[2].partition("<")[0])


def made(client: Client, partner: http_api.Partner, **asked: object) -> str:
    answer = client.post(reverse("token-new", args=[partner.system.pk]), {**ASKED, **asked})
    assert answer.status_code == 200, answer.context["form"].errors
    return text_in(answer.text)


def posted_with(partner: http_api.Partner, token: str) -> int:
    http_api.forget()
    partner.token = token
    return partner.post({"n": 1}).status_code


def test_a_token_is_shown_once_opens_the_door_and_is_in_the_history(
    client: Client, partner: http_api.Partner
) -> None:
    token = made(client, partner)
    assert posted_with(partner, token) == 202
    row = ApiToken.objects.get()
    assert (row.name, row.created_by, row.may_call) == ("erp", "anna", False)
    assert timedelta(days=89) < row.expires_at - timezone.now() < timedelta(days=91)
    page = client.get(reverse("http-api", args=[partner.system.pk])).text
    change = ConfigurationChange.objects.get()
    assert (change.actor, change.kind, change.action) == ("anna", "apitoken", "create")
    assert (change.reason, change.system) == ("go-live", partner.system)
    history = client.get(reverse("change", args=[change.pk])).text
    for told in (page, str(change.after), history, client.get(reverse("changes")).text):
        assert token not in told
        assert row.token_hash not in told
    assert row.prefix in page


def test_mistakes_make_no_token(client: Client, partner: http_api.Partner) -> None:
    address = reverse("token-new", args=[partner.system.pk])
    nothing = {"name": "erp", "days": "90"}
    for asked, said in (
        (nothing, "Allow at least one thing"),
        ({**ASKED, "name": "a b"}, "slug"),
        ({**ASKED, "days": "4711"}, "Select a valid choice"),
        ({**ASKED, "services": ["Nobody"]}, "Select a valid choice"),
    ):
        answer = client.post(address, asked)
        assert answer.status_code == 422
        assert said in unescape(answer.text)
    assert not ApiToken.objects.exists()
    made(client, partner)
    ApiToken.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    again = client.post(address, ASKED)
    assert again.status_code == 422
    assert "already" in again.text


def test_two_are_valid_while_the_partner_changes_over(
    client: Client, partner: http_api.Partner
) -> None:
    first = made(client, partner, services=[http_api.SERVICE])
    old = ApiToken.objects.get()
    address = reverse("token-rotate", args=[partner.system.pk, old.pk])
    second = text_in(client.post(address, {"days": "7"}).text)
    assert [posted_with(partner, token) for token in (first, second)] == [202, 202]
    new = ApiToken.objects.get(name="erp.2")
    old.refresh_from_db()
    assert (new.services, new.may_post, new.may_call) == ([http_api.SERVICE], True, False)
    assert timedelta(days=6) < old.expires_at - timezone.now() < timedelta(days=8)

    third = client.post(address, {"days": "7"})
    assert third.status_code == 303
    assert "both valid" in client.get(third["Location"]).text
    assert ApiToken.objects.count() == 2
    client.post(reverse("token-revoke", args=[partner.system.pk, old.pk]))
    again = reverse("token-rotate", args=[partner.system.pk, new.pk])
    assert client.post(again, {"days": "1"}).status_code == 200
    assert ApiToken.objects.filter(name="erp.3").exists()


def test_tokens_of_two_programs_are_rotated_apart_whatever_numbers_their_names_have(
    partner: http_api.Partner,
) -> None:
    week, author = timedelta(days=7), Author("otto", "due")
    first, second = (
        tokens.make(ApiToken(system=partner.system, name=name), author, valid_for=None).token
        for name in ("erp-7", "erp-2024")
    )
    assert tokens.rotate(first, author, overlap=week).token.name == "erp-7.2"
    assert tokens.rotate(second, author, overlap=week).token.name == "erp-2024.2"
    # Else a second rotation would be taken for the same form, sent twice.
    ApiToken.objects.filter(name="erp-7.2").update(last_used_at=timezone.now())
    with pytest.raises(tokens.TooManyValidError, match=r"^erp-7 and erp-7\.2 are both valid"):
        tokens.rotate(first, author, overlap=week)
    tokens.revoke(first, author)
    successor = ApiToken.objects.get(name="erp-7.2")
    assert tokens.rotate(successor, author, overlap=week).token.name == "erp-7.3"


@pytest.mark.parametrize("days", ["1", "30"])
def test_a_new_text_puts_no_end_off(client: Client, partner: http_api.Partner, days: str) -> None:
    made(client, partner, days="90")
    old = ApiToken.objects.get()
    ends = timezone.now() + timedelta(days=7)
    ApiToken.objects.update(created_at=ends - timedelta(days=90), expires_at=ends)
    client.post(reverse("token-rotate", args=[partner.system.pk, old.pk]), {"days": days})
    old.refresh_from_db()
    new = ApiToken.objects.get(name="erp.2")
    assert old.expires_at <= ends
    assert abs(new.expires_at - ends) < timedelta(minutes=1)
    assert old.expires_at - timezone.now() < timedelta(days=int(days), minutes=1)


def test_a_revoked_token_opens_nothing_and_stays_revoked(
    client: Client, partner: http_api.Partner
) -> None:
    token = made(client, partner)
    row = ApiToken.objects.get()
    address = reverse("token-revoke", args=[partner.system.pk, row.pk])
    for _ in range(2):
        assert client.post(address, {"reason": "lost"}).status_code == 303
    assert posted_with(partner, token) == 401
    assert ConfigurationChange.objects.filter(kind="apitoken", action="change").count() == 1
    answer = client.post(reverse("token-rotate", args=[partner.system.pk, row.pk]))
    assert answer.status_code == 303
    assert ApiToken.objects.count() == 1


def test_tokens_are_made_by_those_who_may(partner: http_api.Partner) -> None:
    address = reverse("token-new", args=[partner.system.pk])
    page = reverse("http-api", args=[partner.system.pk])
    operator = logged_in("Operators")
    assert operator.post(address, ASKED).status_code == 403
    assert Right.CONFIGURE.missing in operator.get(page).text
    stranger = limited_to(ExternalSystem.objects.create(name="elsewhere"))
    for answer in (stranger.get(page), stranger.get(address), stranger.post(address, ASKED)):
        assert answer.status_code == 404
    assert not ApiToken.objects.exists()
    within = limited_to(partner.system)
    assert within.post(address, ASKED).status_code == 200


@pytest.mark.parametrize("doing", ["may_call", "may_publish"])
def test_the_token_of_a_limited_person_reaches_no_further_than_they(
    client: Client, partner: http_api.Partner, doing: str
) -> None:
    elsewhere = ExternalSystem.objects.create(name="elsewhere")
    theirs = a_queue_row(name="theirs-out", direction="outbound", system=elsewhere)
    own = a_queue_row(name="own-out", direction="outbound", system=partner.system)
    for name, queues in (("SHARED", (theirs, own)), ("OWN", (own,))):
        channel = PublishChannel.objects.create(name=name)
        for queue in queues:
            ChannelTarget.objects.create(channel=channel, queue=queue, system=queue.system)
    within = limited_to(partner.system)
    address = reverse("token-new", args=[partner.system.pk])
    for services in ([], ["SHARED"], ["OWN", "SHARED"]):
        asked = {**ASKED, doing: "on", "services": services}
        assert within.post(address, asked).status_code == 422
    assert not ApiToken.objects.exists()
    assert within.post(address, {**ASKED, doing: "on", "services": ["OWN"]}).status_code == 200

    made(client, partner, name="wide", **{doing: "on"})
    wide = ApiToken.objects.get(name="wide")
    within.post(reverse("token-rotate", args=[partner.system.pk, wide.pk]), {"days": "1"})
    assert not ApiToken.objects.filter(name="wide.2").exists()


def test_a_token_is_found_under_its_own_system_only(
    client: Client, partner: http_api.Partner
) -> None:
    other = http_api.a_partner()
    for verb in ("token-rotate", "token-revoke"):
        address = reverse(verb, args=[partner.system.pk, other.row.pk])
        assert client.post(address).status_code == 404
    other.row.refresh_from_db()
    assert other.row.revoked_at is None


def test_the_page_tells_what_is_missing_and_how_it_is_used(client: Client) -> None:
    system = ExternalSystem.objects.create(name="eam")
    page = client.get(reverse("http-api", args=[system.pk])).text
    assert "NO_QUEUE" in page
    assert "There is no token yet" in page
    a_queue_row("continuous", system=system)
    page = client.get(reverse("http-api", args=[system.pk])).text
    assert "NO_QUEUE" not in page
    assert "/esqueue/eam/SERVICE" in page
    assert "/meaweb/" not in page.partition("How it is used")[2]
    ExternalSystem.objects.update(legacy_door=True)
    assert "/meaweb/esqueue/eam/" in client.get(reverse("http-api", args=[system.pk])).text
    card = client.get(reverse("system", args=[system.pk])).text
    assert "every request over HTTP is refused" in card


def test_the_example_is_a_document_that_the_service_takes(
    client: Client, partner: http_api.Partner
) -> None:
    structure = ObjectStructure.objects.create(name="orders", key_paths=["$.ponum"])
    service = EnterpriseService.objects.get(interface=http_api.SERVICE)
    EnterpriseService.objects.update(structure=structure)
    Queue.objects.filter(system=partner.system).update(default_service=service)
    page = unescape(client.get(reverse("http-api", args=[partner.system.pk])).text)
    commands = [part for part in page.split("<pre")[1:] if "/esqueue/" in part and " -d " in part]
    bodies = [shlex.split(part.partition("</pre>")[0])[-1] for part in commands]

    one, several = (json.loads(body) for body in bodies)

    assert several == [one, one]
    assert one["ponum"]


def test_the_example_is_of_a_service_whose_queue_takes_posts(partner: http_api.Partner) -> None:
    at_jms = EnterpriseService.objects.create(interface="AtJms")
    a_jms_queue_row(name="a-first-by-name", system=partner.system, default_service=at_jms)
    service = EnterpriseService.objects.get(interface=http_api.SERVICE)
    Queue.objects.filter(pk=partner.queue.pk).update(default_service=service)
    assert services_at(partner.system) == [http_api.SERVICE, "AtJms"]


def test_the_limits_are_fields_of_the_system(client: Client) -> None:
    entered = {"name": "eam", "enabled": "on"}
    assert client.post(reverse("system-new"), entered).status_code == 303
    system = ExternalSystem.objects.get(name="eam")
    assert (system.max_body_bytes, system.requests_per_minute) == (10 * 2**20, None)
    address = reverse("system-change", args=[system.pk])
    seen = client.get(address).context["seen"]
    limits = {"requests_per_minute": "60", "max_body_bytes": "5000", "legacy_door": "on"}
    assert client.post(address, {**entered, **limits, "seen": seen}).status_code == 303
    system.refresh_from_db()
    assert (system.requests_per_minute, system.max_body_bytes) == (60, 5000)
    assert system.legacy_door
    seen = client.get(address).context["seen"]
    too_much = {**entered, "max_body_bytes": str(101 * 2**20), "seen": seen}
    assert client.post(address, too_much).status_code == 422


@pytest.mark.django_db(transaction=True)
def test_who_revokes_a_token_while_its_form_is_sent_again_waits_and_stays_heard() -> None:
    """The second half of a double click writes all columns of what the first has made."""
    partner, author = http_api.a_partner(), Author("eva", "due")
    asked = {"system": partner.system, "name": "new", "may_post": True}
    first = tokens.make(ApiToken(**asked), author, valid_for=None).token
    told: list[object] = []

    def revoke() -> None:
        with closing(connections["default"]):
            told.append(tokens.revoke(first, Author("otto", "leaked")))

    person = threading.Thread(target=revoke)

    asked_for: list[str] = []

    def meanwhile(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if '"integration_apitoken"' in sql:
            asked_for.append(sql)
        # What the first has made is read by now.
        if len(asked_for) == 2 and person.ident is None:
            person.start()
            person.join(1)
        return execute(sql, *more)

    with connection.execute_wrapper(meanwhile):
        tokens.make(ApiToken(**asked), author, valid_for=None)
    person.join()
    assert told == [True]
    first.refresh_from_db()
    assert first.revoked_at is not None


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_form_that_is_sent_while_its_token_is_revoked_waits_for_the_end() -> None:
    """The audit's row needs the system at the end of the revocation, the form at its beginning."""
    partner, author = http_api.a_partner(), Author("eva", "due")
    asked = {"system": partner.system, "name": "new", "may_post": True}
    first = tokens.make(ApiToken(**asked), author, valid_for=None).token
    told: list[object] = []

    def make() -> None:
        with closing(connections["default"]):
            try:
                told.append(tokens.make(ApiToken(**asked), author, valid_for=None))
            except (OperationalError, tokens.TokenNameTakenError) as e:
                told.append(e)

    person = threading.Thread(target=make)

    def meanwhile(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        done = execute(sql, *more)
        # The token is locked and changed by now.
        if sql.startswith('UPDATE "integration_apitoken"') and person.ident is None:
            person.start()
            eventually(somebody_waits)
        return done

    with connection.execute_wrapper(meanwhile):
        assert tokens.revoke(first, Author("otto", "leaked"))
    person.join()
    first.refresh_from_db()
    assert first.revoked_at is not None
    assert [type(one) for one in told] == [tokens.TokenNameTakenError]


@pytest.mark.django_db(transaction=True)
def test_of_two_who_rotate_and_revoke_a_token_one_waits_for_the_other() -> None:
    partner = http_api.a_partner()
    told: list[object] = []

    def revoke() -> None:
        try:
            told.append(tokens.revoke(partner.row, Author("otto", "leaked")))
        except OperationalError as e:
            told.append(e)
        finally:
            connections.close_all()

    person = threading.Thread(target=revoke)

    def meanwhile(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        # The token is read by now: its family is asked for after it.
        if "integration_apitoken" in sql and " ~ " in sql and person.ident is None:
            person.start()
            eventually(somebody_waits)
        return execute(sql, *more)

    with connection.execute_wrapper(meanwhile):
        tokens.rotate(partner.row, Author("eva", "due"), overlap=timedelta(days=1))
    person.join()
    assert told == [True]
    with pytest.raises(tokens.TokenOverError):
        tokens.rotate(partner.row, Author("eva", "due"), overlap=timedelta(days=1))
