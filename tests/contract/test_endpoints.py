"""What every opened endpoint does, whatever its endpoint type: one suite over all of them."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from integration.endpoints.port import Accepted, Later, Refused, Unknown, Unreachable
from tests.contract.amqp_endpoint_world import AmqpWorld
from tests.contract.endpoint_worlds import EndpointWorld
from tests.contract.every_endpoint_world import WORLDS
from tests.contract.topic_endpoint_world import TopicWorld

pytestmark = pytest.mark.servers

# The only world whose messages go through Django's own connection.
IN_DATABASE = {"kafka": [pytest.mark.django_db(transaction=True)]}


@pytest.fixture(params=[pytest.param(n, marks=IN_DATABASE.get(n, ())) for n in sorted(WORLDS)])
def world(request: pytest.FixtureRequest, tmp_path) -> Iterator[EndpointWorld]:
    if request.param == "database":
        request.getfixturevalue("postgres")
    if request.param == "kafka":
        request.getfixturevalue("transactional_db")
        TopicWorld.bootstrap = request.getfixturevalue("servers").kafka_bootstrap
    if request.param == "amqp":
        AmqpWorld.broker = request.getfixturevalue("amqp_broker")
    made = WORLDS[request.param](tmp_path)
    yield made
    made.close()


def test_a_message_is_accepted_and_arrives(world):
    endpoint = world.open()
    assert isinstance(endpoint.deliver([world.message("m1")])[0], Accepted)
    assert world.arrived() == ["m1"]


def test_as_many_as_it_takes_at_once_are_answered_in_order(world):
    endpoint = world.open()
    messages = [world.message(f"m{n}") for n in range(endpoint.at_once)]
    answers = endpoint.deliver(messages)
    assert len(answers) == len(messages)
    assert all(isinstance(one, Accepted) for one in answers)
    assert sorted(world.arrived()) == sorted(message.message_id for message in messages)


def test_one_of_many_that_is_refused_leaves_the_others(world):
    endpoint = world.open()
    if endpoint.at_once < 3:
        assert endpoint.at_once == 1
        return
    bad = world.spoiled("m1", Refused)
    answers = endpoint.deliver([world.message("m0"), bad, world.message("m2")])
    assert [type(one) for one in answers] == [Accepted, Refused, Accepted]
    assert sorted(world.arrived()) == ["m0", "m2"]


@pytest.mark.parametrize("ending", [Refused, Later, Unreachable, Unknown])
def test_each_ending_is_an_answer_with_a_code_and_a_sentence(world, ending):
    endpoint = world.open()
    message = world.spoiled("m1", ending)
    assert (message is None) == (ending in world.never)
    if message is None:
        return
    (answer,) = endpoint.deliver([message])
    assert type(answer) is ending, answer
    assert answer.code == answer.code.upper() != ""
    assert answer.text.endswith((".", ";"))
    assert "m1" not in world.arrived()
    world.mend()
    assert isinstance(endpoint.deliver([world.message("m2")])[0], Accepted)
    assert world.arrived() == ["m2"]


def test_a_repeat_arrives_once(world):
    endpoint = world.open()
    for _ in range(2):
        assert isinstance(endpoint.deliver([world.message("m1")])[0], Accepted)
    again = world.open()
    message = replace(world.message("m1"), attempt=2)
    assert isinstance(again.deliver([message])[0], Accepted)
    assert world.arrived() == ["m1"]


def test_connect_tells_whether_it_can_be_reached_and_sends_nothing(world):
    assert isinstance(world.open().connect(), Accepted)
    assert world.arrived() == []


def test_connect_tells_what_is_wrong(world):
    if not world.breaks():
        assert world.never_breaks
        return
    answer = world.open().connect()
    assert isinstance(answer, Unreachable)
    assert answer.code
    assert answer.text


def test_it_may_be_closed_twice(world):
    endpoint = world.open()
    endpoint.deliver([world.message("m1")])
    endpoint.close()
    endpoint.close()
    assert isinstance(world.open().deliver([world.message("m2")])[0], Accepted)
    assert world.arrived() == ["m1", "m2"]


def test_threads_may_call_it_at_the_same_time(world):
    endpoint = world.open()
    messages = [world.message(f"m{n}") for n in range(24)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda one: endpoint.deliver([one])[0], messages))
    assert all(isinstance(one, Accepted) for one in answers), answers
    assert sorted(world.arrived()) == sorted(one.message_id for one in messages)


def test_a_call_ends_within_its_time(world):
    message = world.endless("m1")
    if message is None:
        assert world.never_endless
        return
    endpoint, begun = world.open(), time.monotonic()
    (answer,) = endpoint.deliver([message])
    assert not isinstance(answer, Accepted)
    # Their own limits are 2 and 3 s, and a busy machine stands still; what hangs takes 20 s.
    assert time.monotonic() - begun < 15
