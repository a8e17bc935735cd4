"""Whom the commands grant rights to, and how they are written."""

import shlex
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from integration.kafka.examination import Examination, Finding, Section, Verdict, worst
from integration.kafka.grants import CLUSTER, Resource, command, principal_of
from integration.models import Provider

pytestmark = pytest.mark.fast


def a_certificate() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Plant & Co"),
            x509.NameAttribute(NameOID.COMMON_NAME, "sluice"),
        ]
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode()


def a_provider(**fields: str) -> Provider:
    return Provider(**{"name": "main", "bootstrap_servers": "b1:9092, b2:9092", **fields})


@pytest.mark.parametrize(
    ("fields", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "User:ANONYMOUS"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "sluice"},
            "User:sluice",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "username": "x"},
            "User:SUBJECT-OF-THE-TOKEN",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", "username": "x"},
            "User:NAME-OF-THE-KERBEROS-PRINCIPAL",
        ),
        (
            {"security_protocol": "SSL", "client_certificate": "no certificate"},
            "User:SUBJECT-OF-THE-CERTIFICATE",
        ),
    ],
)
def test_the_principal_is_whom_the_cluster_takes_us_for(fields, principal):
    assert principal_of(a_provider(**fields)) == principal


def test_the_subject_of_a_certificate_is_written_as_kafka_does():
    provider = a_provider(security_protocol="SSL", client_certificate=a_certificate())
    assert principal_of(provider) == "User:CN=sluice,O=Plant & Co"
    words = shlex.split(command(provider, Resource("--topic", "orders"), ["Read"]))
    assert words[words.index("--allow-principal") + 1] == "User:CN=sluice,O=Plant & Co"


def test_a_command_names_cluster_principal_operations_and_resource():
    open_one = command(a_provider(), Resource("--topic", "orders"), ["Describe", "Read"])
    assert open_one == (
        "kafka-acls.sh --bootstrap-server b1:9092 --add --allow-principal User:ANONYMOUS "
        "--operation Describe --operation Read --topic orders"
    )
    ids = Resource("--transactional-id", "sluice.", is_prefix=True)
    secured = a_provider(security_protocol="SASL_SSL", username="sluice")
    assert command(secured, ids, ["Write"]).endswith(
        "--command-config admin.properties --add --allow-principal User:sluice "
        "--operation Write --transactional-id sluice. --resource-pattern-type prefixed"
    )
    assert command(secured, CLUSTER, ["Create"]).endswith("--operation Create --cluster")


def test_what_is_only_good_to_have_does_not_spoil_the_verdict():
    needed = Finding("Topic orders", Verdict.OK)
    optional = Finding("Cluster", Verdict.REFUSED, is_needed=False)
    assert Examination((Section("", (needed, optional)),), "").verdict is Verdict.OK
    assert worst([Verdict.OK, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert worst([Verdict.UNKNOWN, Verdict.REFUSED]) is Verdict.REFUSED
