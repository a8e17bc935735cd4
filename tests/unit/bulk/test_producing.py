"""The sender of bulk jobs: the road's own promises, and no secret in what it says."""

import pytest

from integration.kafka import client
from spark_jobs.errors import JobError
from spark_jobs.topics.producing import PRODUCER, open_sender

pytestmark = pytest.mark.fast


def test_its_promises_are_those_of_the_engine() -> None:
    assert PRODUCER == client.PRODUCER


def test_settings_that_make_no_client_are_told_without_their_secrets() -> None:
    with pytest.raises(JobError) as told:
        open_sender({"bootstrap.servers": "x:1", "sasl.password": "hush", "no.such": "hush"})
    assert told.value.code == "KAFKA_UNUSABLE"
    assert "hush" not in told.value.text


def test_records_that_nobody_takes_are_told() -> None:
    sender = open_sender({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300})
    sender.send("nowhere", b"k", b"v", [("a", b"1")])
    with pytest.raises(JobError) as told:
        sender.finish()
    assert told.value.code == "NOT_DELIVERED"
    assert "127.0.0.1" in told.value.text, "the reason, not the timeout alone"


def test_what_was_refused_stops_those_that_follow() -> None:
    sender = open_sender({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": 1_000})
    with pytest.raises(JobError) as told:
        sender.send("nowhere", None, b"x" * 2_000)
    assert told.value.code == "NOT_DELIVERED"
