"""Queues that read from a real JMS broker, and what is put there for them."""

import uuid
from collections.abc import Iterable
from typing import Any

from devstack.artemis import USER
from integration import registration
from integration.models import EnterpriseService, Provider, Queue, QueuePartition
from tests.support.amqp import Broker
from tests.support.builders import some_services


def a_jms_provider(jms: Broker, **fields: Any) -> Provider:
    defaults: dict[str, Any] = {
        "kind": Provider.Kind.JMS,
        "bootstrap_servers": f"127.0.0.1:{jms.port}",
        "security_protocol": Provider.Security.SASL_PLAINTEXT,
        "username": USER,
        "password": jms.server.password,
    }
    provider, _ = Provider.objects.update_or_create(name="jms", defaults=defaults | fields)
    return provider


def a_jms_queue(jms: Broker, kind: str = "sequential", **fields: Any) -> Queue:
    """A queue that reads a JMS queue of its own, with its first position."""
    some_services()
    obey = EnterpriseService.objects.get(interface="OBEY")
    defaults: dict[str, Any] = {
        "name": f"q-{uuid.uuid4().hex[:10]}",
        "topic": f"in-{uuid.uuid4().hex[:10]}",
        "kind": kind,
        "start_from": Queue.StartFrom.BEGINNING,
        "default_service": obey,
        "stay_seconds": 0.0,
        "retry_delay_seconds": 0.0,
    }
    provider = fields.pop("provider", None) or a_jms_provider(jms)
    queue = Queue(provider=provider, **(defaults | fields))
    queue.full_clean()
    queue.save()
    registration.register(queue)
    return queue


def put(jms: Broker, queue: Queue, bodies: Iterable[Any], **fields: Any) -> None:
    """Send texts of JSON, as any client would, under ids m0, m1, …; `fields` are of each."""
    from tests.support import amqp_client  # noqa: PLC0415 - only where the library is installed

    amqp_client.put_texts(jms.port, (USER, jms.server.password), queue.topic, bodies, **fields)


def left(jms: Broker, queue: Queue) -> list[str]:
    """The ids of what the broker still has."""
    return [str(message.id) for message in jms.received(queue.topic)]


def standing(queue: Queue) -> tuple[str, str]:
    """The state of its one partition, and the code of it."""
    place = QueuePartition.objects.get(queue=queue)
    return place.state, place.state_code
