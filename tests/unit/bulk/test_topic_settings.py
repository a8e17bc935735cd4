"""Ranges as people write them, and providers in the words of Java's client."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from integration.kafka.client import connection
from integration.models import Provider
from spark_jobs.errors import JobError
from spark_jobs.session import FIXED, REDACTED
from spark_jobs.topics.cluster import Topic
from spark_jobs.topics.jvm import java_settings
from spark_jobs.topics.planning import Part, TopicPlan, Wanted, bound

pytestmark = pytest.mark.fast

PLAIN = {"bootstrap.servers": "a:1,b:2", "security.protocol": "PLAINTEXT", "client.id": "sluice"}
SASL = {
    **PLAIN,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "us\\er",
    "sasl.password": 'pass"word;',
}


def code_of(act: Any) -> str:
    with pytest.raises(JobError) as told:
        act()
    return told.value.code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("  ", None),
        ("1200", 1_200),
        ("0:1200,1:800", {0: 1_200, 1: 800}),
        ("0:1200, 3:0", {0: 1_200, 3: 0}),
        ("2026-01-31T08:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T09:00+01:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_an_end_of_a_range_is_read_as_it_is_written(text: str, expected: object) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    "text", ["yesterday", "-5", "1.5", "0:1,0:2", "0:", "2026-01-31", "2026-01-31T08:00", "٣"]
)
def test_what_is_no_end_of_a_range_is_refused(text: str) -> None:
    assert code_of(lambda: bound(text)) == "BAD_PARAMETERS"


def test_a_range_does_not_end_before_it_begins() -> None:
    assert code_of(Wanted(topic="t", begin="5", end="4").check) == "BAD_PARAMETERS"
    late, early = "2026-01-31T09:00Z", "2026-01-31T08:00Z"
    assert code_of(Wanted(topic="t", begin=late, end=early).check) == "BAD_PARAMETERS"
    Wanted(topic="t", begin="5", end="5").check()


def test_a_plan_is_read_back_as_it_was_told() -> None:
    part = Part(partition=1, begin=5, end=9)
    plan = TopicPlan(topic="t", uuid="u", parts=(part,), oldest=(1,))
    assert TopicPlan.of(plan.as_json()) == plan
    assert plan.offsets == 4


def test_what_a_topic_does_not_have_any_more_is_named() -> None:
    plan = TopicPlan(topic="t", uuid="u", parts=(Part(partition=0, begin=5, end=9),))
    plan.check(Topic("u", {0: 5}, {0: 9}))
    assert code_of(lambda: plan.check(Topic("u", {0: 6}, {0: 9}))) == "RANGE_EXPIRED"
    assert code_of(lambda: plan.check(Topic("u", {0: 0}, {0: 8}))) == "RANGE_BEYOND_END"
    assert code_of(lambda: plan.check(Topic("u", {}, {}))) == "RANGE_BEYOND_END"
    assert code_of(lambda: plan.check(Topic("other", {0: 0}, {0: 9}))) == "TOPIC_REPLACED"


def test_a_plain_provider_keeps_the_names_that_both_clients_have() -> None:
    both = {**PLAIN, "socket.keepalive.enable": "True", "message.max.bytes": "67108864"}
    assert java_settings(both) == PLAIN


def test_a_login_is_quoted_as_java_reads_it() -> None:
    found = java_settings(SASL)
    assert found["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="us\\\\er" password="pass\\"word;";'
    )
    assert found["sasl.mechanism"] == "SCRAM-SHA-512"
    assert not {"sasl.username", "sasl.password"} & found.keys()


def test_every_way_to_log_in_that_a_provider_may_have_is_told_to_java() -> None:
    provider = Provider(
        pk=1,
        name="plant",
        bootstrap_servers="a:1",
        security_protocol="SASL_SSL",
        username="sluice",
        password='sec"ret',
        properties={"sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token"},
    )
    for mechanism in Provider.Mechanism.values:
        provider.sasl_mechanism = mechanism
        found = java_settings({k: str(v) for k, v in connection(provider).properties.items()})
        login = found["sasl.jaas.config"]
        assert ('"sluice"' in login and '"sec\\"ret"' in login) is (mechanism != "GSSAPI")
        is_oauth = mechanism == "OAUTHBEARER"
        assert ("sasl.login.callback.handler.class" in found) is is_oauth
        # What remains is secret in its JAAS line alone.
        assert 'sec"ret' not in str({**found, "sasl.jaas.config": ""})
    assert code_of(lambda: java_settings({**SASL, "sasl.mechanism": ""})) == "KAFKA_UNUSABLE"


def test_certificates_are_told_as_texts_and_an_old_key_is_written_anew() -> None:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    old = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()
    found = java_settings(
        {
            **PLAIN,
            "security.protocol": "SSL",
            "ssl.ca.pem": "the authority",
            "ssl.certificate.pem": "the chain",
            "ssl.key.pem": old,
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert found["ssl.truststore.certificates"] == "the authority"
    assert found["ssl.keystore.certificate.chain"] == "the chain"
    assert found["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert (found["ssl.truststore.type"], found["ssl.keystore.type"]) == ("PEM", "PEM")
    assert found["ssl.endpoint.identification.algorithm"] == ""
    broken = {**PLAIN, "security.protocol": "SSL", "ssl.key.pem": "no key"}
    assert code_of(lambda: java_settings(broken)) == "KAFKA_UNUSABLE"


def test_what_is_secret_is_left_out_of_sparks_pages() -> None:
    secret = {"sasl.jaas.config", "ssl.keystore.key", "ssl.truststore.certificates"}
    assert all(re.search(REDACTED, f"kafka.{name}") for name in secret)
    assert FIXED["spark.redaction.regex"] == FIXED["spark.sql.redaction.options.regex"] == REDACTED
