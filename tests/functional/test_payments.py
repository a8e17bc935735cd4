"""The payment example, set up by its forms: what becomes of requests by Kafka and by JMS."""

import io
import json
from collections import Counter
from random import Random

import pytest
from django.core.management import CommandError, call_command

from bench import traffic as kafka_client
from devstack.artemis import USER
from devstack.servers import Servers
from integration.actions import failures
from integration.models import MessageError, MessageTrack, OutboxRow, Provider, Queue
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from payments import names, requests, seed, store, traffic
from payments.models import Charge
from tests.support.amqp import Broker

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def planted(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example on topics that no other test has written to."""
    suffix = f"{Random().randrange(10**9)}"
    for queue, topic in list(names.TOPICS.items()):
        monkeypatch.setitem(names.TOPICS, queue, f"{topic}.{suffix}")
    monkeypatch.setattr(names, "JMS_ADDRESS", f"payments-{suffix}")
    seed.plant()


def work(name: str) -> None:
    """Run the queue until nothing of it is to be tried again."""
    calm = {"stay_seconds": 0, "retry_delay_seconds": 0, "carrier": Queue.Carrier.ROW}
    Queue.objects.filter(name=name).update(**calm)
    queue = Queue.objects.get(name=name)
    run_queue(queue.pk)
    while queue.errors.filter(state="RETRY").exists():
        run_queue(queue.pk)


def sent(*wanted: requests.Sent) -> None:
    kafka = store.AtKafka()
    for each in wanted:
        kafka.send(each)
    kafka.close()
    assert not kafka.unconfirmed


def notices(servers: Servers) -> Counter[str]:
    """How often the store has read a notice of each payment, as a reader of committed records."""
    waiting = OutboxRow.objects.filter(state__in=["PENDING", "STAMPED"])
    provider = Provider.objects.get(name=names.PROVIDER)
    run_relay(provider.pk, stop=lambda: not waiting.exists())
    topic = names.TOPICS[names.NOTICES]
    records = kafka_client.committed(servers.kafka_bootstrap, topic, names.PARTITIONS)
    return Counter(json.loads(record.value())["payment"] for record in records)


def charged() -> list[str]:
    return sorted(Charge.objects.values_list("payment", flat=True))


def ended(queue: str, ending: str) -> int:
    return MessageTrack.objects.filter(queue__name=queue, ended=ending).count()


def test_a_good_a_bad_and_a_repeated_request_end_where_they_belong(planted, servers):
    random = Random(1)
    good = requests.request("P-1", random)
    bad = requests.bad_card("P-2", random)
    other = requests.again(good, as_other=True)
    sent(good, requests.again(good, as_other=False), other, bad, requests.closing("P-3", random))
    work(names.REQUESTS)
    assert charged() == ["P-1", "P-3"]
    # One is dropped by its message id, the other is found to be charged.
    assert ended(names.REQUESTS, "DUPLICATE") == 1
    [held] = MessageError.objects.filter(state="HOLD")
    assert (held.code, held.failure_class) == ("CARD_TOKEN", "permanent")
    assert notices(servers) == {"P-1": 1, "P-3": 1}

    # A person corrects the card and releases the request.
    mended = json.dumps(json.loads(bad.value) | {"card": "tok_0123456789ab"}).encode()
    version = failures.edit(held.pk, version=held.version, actor="anna", payload=mended)
    failures.release(held.pk, version=version, actor="anna")
    work(names.REQUESTS)
    assert charged() == ["P-1", "P-2", "P-3"]
    assert notices(servers) == {"P-1": 1, "P-2": 1, "P-3": 1}


def test_a_request_by_jms_is_charged_by_the_same_handler_and_once(
    planted, servers, amqp_broker: Broker
):
    at = seed.Broker(f"127.0.0.1:{amqp_broker.port}", USER, amqp_broker.server.password)
    assert seed.plant(at) == [
        f"the provider {names.JMS_PROVIDER}",
        f"the queue {names.JMS_REQUESTS} at the address {names.JMS_ADDRESS}",
    ]
    assert seed.plant(at) == []
    random = Random(2)
    first, second = requests.request("P-1", random), requests.request("P-2", random)
    with store.at_broker() as broker:
        assert all(broker.send(one) for one in (first, second))
    work(names.JMS_REQUESTS)
    # The store asks once more by the other way.
    sent(second)
    work(names.REQUESTS)
    assert charged() == ["P-1", "P-2"]
    assert notices(servers) == {"P-1": 1, "P-2": 1}


def test_the_set_up_can_be_repeated_and_follows_the_servers_to_another_port(planted):
    assert seed.plant() == []
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    [done] = seed.plant()
    assert "point at" in done
    names_of_queues = set(Queue.objects.values_list("name", flat=True))
    assert names_of_queues == {names.REQUESTS, f"{names.REQUESTS}-errors", names.NOTICES}


def test_the_traffic_sends_and_counts(planted):
    out = io.StringIO()
    call_command("payments_traffic", rate=50, seconds=0.5, stdout=out)
    assert "0 unconfirmed" in out.getvalue()
    assert "sound" in out.getvalue()


def test_the_traffic_says_when_nothing_is_set_up(servers):
    with pytest.raises(CommandError, match="seed_payments"):
        call_command("payments_traffic", seconds=0)


def test_each_kind_of_request_comes_by():
    made = traffic.stream(Random(3))
    kinds = Counter(next(made).why for _ in range(traffic.PARTICULAR_EVERY * 9))
    assert set(kinds) == {
        "",
        "repeat",
        "transient: the bank is closing",
        "permanent: no card token",
    }
