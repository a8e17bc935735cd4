"""The rights of the user that a message was sent for: given by a proof, and by no name alone.

How: handler OBEY.USER asks for a permission; messages come by the HTTP API at once, or from a real
topic, with the headers that a post gives them or with somebody's forgery of those.
"""

import json
import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from integration.actions import failures
from integration.codec import decode_headers
from integration.handlers.registry import BatchOfUsersError, inbound
from integration.handlers.user_proof import PROOF, proof_of
from integration.models import ApiToken, EnterpriseService, MessageError, OutboxRow, Queue
from integration.runs.queues import run_queue
from integration.testing import run_handler
from tests.support.builders import a_brief_queue
from tests.support.http_api import Partner, a_partner, forget, problem
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person
from tests.support.world.handlers import ALLOWED_BY, of_user
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
USERS = "OBEY.USER"
CLERK = "clerk"


@pytest.fixture
def clerk() -> User:
    person = a_person(name=CLERK)
    app, _, codename = ALLOWED_BY.partition(".")
    found = Permission.objects.get(content_type__app_label=app, codename=codename)
    person.user_permissions.add(found)
    EnterpriseService.objects.get_or_create(interface=USERS)
    return person


@pytest.fixture
def partner(clerk: User) -> Partner:
    """One that may speak for the clerk."""
    made = a_partner()
    ApiToken.objects.filter(pk=made.row.pk).update(users=[CLERK])
    forget()
    return made


def envelope(user: str = CLERK, **payload: Any) -> dict[str, Any]:
    return {"INTERFACE": USERS, "USER": user, "payload": json.dumps({"n": 1, **payload})}


def at_once(partner: Partner, user: str = CLERK) -> Any:
    return partner.post(envelope(user), service=USERS, address="es")


class TestAtOnce:
    def test_who_may_speak_for_a_user_has_that_users_rights(self, partner: Partner) -> None:
        assert at_once(partner).status_code == 200
        assert Effect.objects.count() == 1

    def test_a_token_that_may_not_proves_nothing(self, partner: Partner) -> None:
        a_person(name="boss")
        assert problem(at_once(partner, "boss"), 422, "USER_NOT_PROVEN")
        ApiToken.objects.update(users=[])
        forget()
        assert problem(at_once(partner), 422, "USER_NOT_PROVEN")
        assert not Effect.objects.exists()

    @pytest.mark.parametrize("lost", ["permission", "active", "account"])
    def test_rights_are_asked_for_at_each_call(
        self, partner: Partner, clerk: User, lost: str
    ) -> None:
        match lost:
            case "permission":
                clerk.user_permissions.clear()
            case "active":
                User.objects.filter(pk=clerk.pk).update(is_active=False)
            case _:
                clerk.delete()
        assert problem(at_once(partner), 422, "USER_NOT_ALLOWED")
        assert not Effect.objects.exists()


def test_a_post_to_a_queue_carries_the_proof_of_its_topic(partner: Partner) -> None:
    queue = partner.queue
    assert queue is not None
    queue.default_service = EnterpriseService.objects.get(interface=USERS)
    queue.save()
    forget()
    answer = partner.post(envelope(), service=USERS)
    assert answer.status_code == 202, answer.content
    row = OutboxRow.objects.get()
    proof = proof_of(CLERK, answer.json()["message_id"], USERS, queue.topic, bytes(row.value))
    assert dict(decode_headers(row.headers))[PROOF] == proof.encode()


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker: Kafka, clerk: User) -> Queue:
    service = EnterpriseService.objects.get(interface=USERS)
    return a_brief_queue(broker, default_service=service)


def headers_of(payload: bytes, queue: Queue, **other: str) -> list[tuple[str, bytes]]:
    """As a post leaves them; `other` goes into the proof instead of what the message has."""
    told = {"user": CLERK, "message_id": f"m-{uuid.uuid4().hex}", "interface": USERS}
    signed = {**told, "topic": queue.topic, **other}
    proof = proof_of(**signed, payload=payload)
    names = {"sluice-message-id": told["message_id"], "sluice-interface": USERS}
    pairs = {**names, "sluice-user": CLERK, PROOF: proof}
    return [(name, text.encode()) for name, text in pairs.items()]


def test_a_proof_counts_for_its_message_alone(broker: Kafka, queue: Queue) -> None:
    own, other = b'{"n": 1}', b'{"n": 2}'
    broker.send(queue.topic, [own], headers=headers_of(own, queue))
    broker.send(queue.topic, [other], headers=headers_of(own, queue))
    forged = [("user", "boss"), ("message_id", "m-1"), ("interface", "OBEY"), ("topic", "t")]
    for name, value in forged:
        broker.send(queue.topic, [other], headers=headers_of(other, queue, **{name: value}))
    bare = [pair for pair in headers_of(other, queue) if pair[0] != PROOF]
    broker.send(queue.topic, [other], headers=bare)
    broker.send(queue.topic, [other], headers=[*bare, (PROOF, b"\xff:guess")])
    run_queue(queue.pk)
    assert list(Effect.objects.values_list("n", flat=True)) == [1]
    held = MessageError.objects.filter(state="HOLD", code="USER_NOT_PROVEN")
    assert held.count() == 1 + len(forged) + 2


def test_rights_are_asked_for_again_at_a_release(broker: Kafka, queue: Queue, clerk: User) -> None:
    payload = b'{"n": 1}'
    clerk.is_active = False
    clerk.save()
    broker.send(queue.topic, [payload], headers=headers_of(payload, queue))
    run_queue(queue.pk)
    failure = MessageError.objects.get(code="USER_NOT_ALLOWED")
    clerk.is_active = True
    clerk.save()
    failures.release(failure.pk, version=failure.version, actor="anna", reason="he is back")
    run_queue(queue.pk)
    assert Effect.objects.count() == 1


@pytest.mark.parametrize("payload", [b'{"n": 2}', b'{"n": 1}'], ids=["edited", "undone"])
def test_an_edit_proves_nothing_until_it_is_undone(
    broker: Kafka, queue: Queue, clerk: User, payload: bytes
) -> None:
    own = b'{"n": 1}'
    broker.send(queue.topic, [own], headers=headers_of(own, queue))
    clerk.user_permissions.clear()
    run_queue(queue.pk)
    failure = MessageError.objects.get(code="USER_NOT_ALLOWED")
    app, _, codename = ALLOWED_BY.partition(".")
    found = Permission.objects.get(content_type__app_label=app, codename=codename)
    clerk.user_permissions.add(found)
    version = failure.version
    for text in (b'{"n": 2}', payload):
        version = failures.edit(failure.pk, version=version, actor="anna", payload=text)
    failures.release(failure.pk, version=version, actor="anna", reason="mended")
    run_queue(queue.pk)
    failure.refresh_from_db()
    is_own = payload == own
    ended = ("RESOLVED", 1) if is_own else ("HOLD", 0)
    assert (failure.state, Effect.objects.count()) == ended
    assert is_own or failure.code == "USER_NOT_PROVEN"


def test_a_proof_counts_as_long_as_its_key_is_a_fallback(
    broker: Kafka, queue: Queue, settings: Any
) -> None:
    payload, now, before = b'{"n": 1}', settings.SECRET_KEY, "k" * 50
    settings.SECRET_KEY = before
    headers = headers_of(payload, queue)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = now, []
    broker.send(queue.topic, [payload], headers=headers)
    run_queue(queue.pk)
    failure = MessageError.objects.get(code="USER_NOT_PROVEN")
    settings.SECRET_KEY_FALLBACKS = [before]
    failures.release(failure.pk, version=failure.version, actor="anna", reason="old key")
    run_queue(queue.pk)
    assert Effect.objects.count() == 1


def test_batches_have_no_one_user() -> None:
    with pytest.raises(BatchOfUsersError):
        inbound("NEVER", batch=True, permission=ALLOWED_BY)


def made(client: Client, partner: Partner, users: str) -> Any:
    form = {"name": f"t-{uuid.uuid4().hex[:6]}", "may_post": "on", "days": "30", "users": users}
    return client.post(reverse("token-new", args=[partner.system.pk]), form)


def test_nobody_lets_a_token_speak_for_who_may_do_more(partner: Partner, clerk: User) -> None:
    configurer = a_person("Administrators")
    client = Client()
    client.force_login(configurer)
    User.objects.create_superuser("root")
    for users in ("root", CLERK, "nobody-here"):
        answer = made(client, partner, users)
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["users"])
    address = reverse("token-rotate", args=[partner.system.pk, partner.row.pk])
    client.post(address, {"days": "7"})
    assert ApiToken.objects.count() == 1, "whoever makes a text knows it"
    configurer.user_permissions.set(clerk.user_permissions.all())
    assert made(client, partner, f"{CLERK}\r\n\r\n {CLERK} ").status_code == 200
    assert ApiToken.objects.order_by("pk").last().users == [CLERK]


@pytest.mark.parametrize("name", ["Jane Doe", "jörg", "Doe, Jane"])
def test_a_name_is_one_name_whatever_is_in_it(partner: Partner, clerk: User, name: str) -> None:
    """Its words are accounts, too, and their rights are not meant."""
    for word in name.split():
        if word != name:
            a_person(name=word)
    User.objects.filter(pk=clerk.pk).update(username=name)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    assert made(client, partner, name).status_code == 200
    users = ApiToken.objects.order_by("pk").last().users
    assert users == [name]
    ApiToken.objects.update(users=users)
    forget()
    assert at_once(partner, name).status_code == 200
    for word in {*name.split()} - {name}:
        assert problem(at_once(partner, word), 422, "USER_NOT_PROVEN")
    assert partner.post(envelope(name), service=USERS).status_code == 202
    headers = dict(decode_headers(OutboxRow.objects.get().headers))
    assert headers["sluice-user"] == name.encode()


def test_the_page_of_tokens_names_each_user_for_itself(partner: Partner) -> None:
    """One name with a comma looks like no two names."""
    ApiToken.objects.filter(pk=partner.row.pk).update(users=["Doe, Jane", "jörg"])
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(reverse("http-api", args=[partner.system.pk])).content.decode()
    spoken_for = page.partition("may speak for")[2].partition("</ul>")[0]
    assert re.findall(r"<li[^>]*>(.*?)</li>", spoken_for) == ["Doe, Jane", "jörg"]


def test_a_name_in_a_topic_is_read_as_it_was_posted(
    broker: Kafka, queue: Queue, clerk: User
) -> None:
    payload = b'{"n": 1}'
    for name in ("Jane Doe", "jörg"):
        User.objects.filter(pk=clerk.pk).update(username=name)
        headers = headers_of(payload, queue, user=name)
        named = [(n, name.encode() if n == "sluice-user" else value) for n, value in headers]
        broker.send(queue.topic, [payload], headers=named)
        run_queue(queue.pk)
    assert Effect.objects.count() == 2
    assert not MessageError.objects.exists()


def test_a_test_of_a_handler_proves_the_user_that_it_names(clerk: User) -> None:
    assert run_handler(of_user, {"n": 1}, user=CLERK).is_applied
    outcomes = [
        run_handler(of_user, {"n": 1}, headers={"sluice-user": CLERK}),
        run_handler(USERS, {"n": 1}, user="nobody-here"),
    ]
    codes = [one.failure.code for one in outcomes if one.failure is not None]
    assert codes == ["USER_NOT_PROVEN", "USER_NOT_ALLOWED"]
