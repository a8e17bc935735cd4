"""A registry that wants TLS and our certificate: what is wrong is said, and costs nothing."""

import ssl
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.health.flow import check_flow
from devstack.certificates import Authority, Issued
from integration.formats.schema import Schema
from integration.models import MessageError, Provider, Queue, QueuePartition
from integration.policy.failure import Failure, FailureClass
from integration.registries import known
from integration.registries.schemas import schemas_for
from integration.selectors.setup.registry import examined_registry
from tests.support.avro import ORDER, an_avro
from tests.support.builders import a_brief_queue
from tests.support.certificates import a_context
from tests.support.flows import drain, effects, standing
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person
from tests.support.small_registry import SmallRegistry

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

TRUSTED, STRANGER = Authority("trusted"), Authority("stranger")
EXPIRED = timedelta(hours=-1)
SERVER, OURS = TRUSTED.server("127.0.0.1"), TRUSTED.client("sluice")
CODE = "REGISTRY_CERTIFICATE"


class Way(NamedTuple):
    """The certificate that a registry shows, ours, and a fact of what is said of them."""

    shown: Issued
    ours: Issued | None
    fact: str


WAYS = {
    "another authority": Way(STRANGER.server("127.0.0.1"), OURS, "CN=stranger"),
    "expired": Way(TRUSTED.server("127.0.0.1", lasting=EXPIRED), OURS, "it expired on"),
    "another host": Way(TRUSTED.server("registry.example"), OURS, "registry.example"),
    "none of ours": Way(SERVER, None, "has none"),
    "ours by a stranger": Way(SERVER, STRANGER.client("sluice"), "unknown ca"),
    "ours expired": Way(SERVER, TRUSTED.client("sluice", lasting=EXPIRED), "it expired on"),
}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """As a new process: nothing is known of any registry."""
    known.forget_everything()
    yield
    known.forget_everything()


def a_registry(context: ssl.SSLContext) -> SmallRegistry:
    registry = SmallRegistry(context)
    registry.put(7, ORDER)
    return registry


def secured(registry: SmallRegistry, ours: Issued | None) -> dict[str, str]:
    """The fields of a provider with this registry, and our certificate for it."""
    fields = {"registry_url": registry.url, "registry_ca_certificate": TRUSTED.certificate}
    if ours is not None:
        fields["registry_client_certificate"] = ours.certificate
        fields["registry_client_key"] = ours.key
    return fields


def found(provider: Provider) -> tuple[str, Schema | Failure]:
    """What the test of the provider says, and what a message would meet."""
    examined, schemas = examined_registry(provider), schemas_for(provider, "t")
    assert examined is not None
    assert schemas is not None
    return examined.findings[0].text, schemas.find(7)


def test_with_the_right_certificates_a_registry_is_asked() -> None:
    registry = a_registry(a_context(SERVER, clients=TRUSTED))
    try:
        provider = Provider.objects.create(name="plant", **secured(registry, OURS))
        told, schema = found(provider)
        assert told == "1 subject."
        assert isinstance(schema, Schema)
    finally:
        registry.close()


@pytest.mark.parametrize("name", WAYS)
def test_what_is_wrong_with_whose_certificate_is_told_and_is_an_outage(name: str) -> None:
    way = WAYS[name]
    registry = a_registry(a_context(way.shown, clients=TRUSTED))
    try:
        provider = Provider.objects.create(name="plant", **secured(registry, way.ours))
        told, failure = found(provider)
    finally:
        registry.close()
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.code) == (FailureClass.OUTAGE, CODE)
    assert told.startswith(f"{CODE}: ")
    for text in (told, failure.text):
        assert way.fact in text
        assert way.ours is None or way.ours.key not in text
    assert registry.asked == []


def test_a_queue_waits_for_the_certificate_and_spends_nothing(servers) -> None:
    registry = a_registry(a_context(SERVER, clients=TRUSTED))
    queue = a_brief_queue(Kafka(servers.kafka_bootstrap))
    Provider.objects.filter(pk=queue.provider_id).update(**secured(registry, None))
    broker = Kafka(servers.kafka_bootstrap)
    broker.send(queue.topic, [{"n": 0}, an_avro({"n": 1, "do": "ok"})])
    try:
        drain(queue)
        assert effects() == [0]
        assert standing(queue) == (1, "OUTAGE", CODE)
        assert not MessageError.objects.exists()
        assert_is_told(queue)

        provider = Provider.objects.get()
        for name, value in secured(registry, OURS).items():
            setattr(provider, name, value)
        provider.save()
        QueuePartition.objects.filter(queue=queue).update(resume_at=timezone.now())
        drain(queue)
        assert effects() == [0, 1]
        assert standing(queue) == (2, "RUNNING", "")
    finally:
        registry.close()


def assert_is_told(queue: Queue) -> None:
    """By the flow check, and by the test on the provider's page."""
    fresh = Queue.objects.select_related("provider", "system", "default_service").get(pk=queue.pk)
    [link] = [link for link in check_flow(fresh) if link.name == "position"]
    assert not link.ok
    assert CODE in link.why
    assert "certificate" in link.next_step
    page = Client()
    page.force_login(a_person("Administrators"))
    shown = page.post(reverse("provider-test", args=[queue.provider_id])).text
    assert f"{CODE}: " in shown
