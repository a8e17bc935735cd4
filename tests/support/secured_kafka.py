"""A Kafka with logins, certificates and rights, one for a file: what is not granted is refused.

Tests share it, so each has users and topics of its own. It runs as long as tests of one tester
that want it follow each other: with ten listeners it is a busy one even when nobody asks it.
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from devstack import ports, secured_kafka
from devstack.certificates import Authority
from devstack.overriding import override
from devstack.secured_kafka import HOSTS, shown_at
from devstack.supervise import Process
from tests.support.celery_world import eventually
from tests.support.kafka_session import QUIET, session_of
from tests.support.kept_objects import keep_the_rest
from tests.support.kept_together import LOGINS, file_of, group_of

USER, PASSWORD = "sluice", "its-password"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
# Nobody kills it, and a busy machine may hold it up.
SESSION_SECONDS = 60
# By port: what its certificate lacks.
FAULTY = ("EXPIRED", "STRANGE", "MISNAMED")


class SecuredKafka(secured_kafka.SecuredKafka):
    """That of devstack with more ports.

    `secured` asks for a login by PLAIN in the clear, `sealed` by PLAIN or SCRAM through TLS;
    `encrypted` speaks TLS and lets in anybody. `misled` is open, and sends its clients on to an
    address where nobody is. `expired`, `strange` and `misnamed` show certificates that nobody
    should accept.
    """

    def __init__(self, folder: Path) -> None:
        chosen: list[int] = []
        for _ in range(10):
            chosen.append(ports.choose(chosen))
        super().__init__(folder, chosen[0], controller_port=chosen[1], durable=False)
        self.sasl_ssl_port, self.ssl_port = chosen[2:4]
        others = [f"127.0.0.1:{port}" for port in chosen[4:]]
        self.secured, self.misled, self.encrypted = others[:3]
        self.expired, self.strange, self.misnamed = others[3:]
        self.sealed, self.mutual = self.sasl_ssl, self.ssl
        self.certificate = self.authority.certificate

    @override
    def listeners(self) -> dict[str, str]:
        return {
            **super().listeners(),
            "SASL_PLAINTEXT": self.secured,
            "MISLED": self.misled,
            "OPEN_TLS": self.encrypted,
            **{name: getattr(self, name.lower()) for name in FAULTY},
        }

    @override
    def advertised(self) -> dict[str, str]:
        return {"MISLED": "127.0.0.1:1"}

    @override
    def protocols(self) -> dict[str, str]:
        return {
            **super().protocols(),
            "SASL_PLAINTEXT": "SASL_PLAINTEXT",
            "MISLED": "PLAINTEXT",
            "OPEN_TLS": "SSL",
            **dict.fromkeys(FAULTY, "SSL"),
        }

    @override
    def more(self) -> dict[str, str]:
        mechanisms = "sasl.enabled.mechanisms"
        login = f'{LOGIN} user_{USER}="{PASSWORD}" user_other="other";'
        return {
            **super().more(),
            **QUIET,
            **session_of(SESSION_SECONDS),
            f"listener.name.sasl_plaintext.{mechanisms}": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            # Less than a provider may ask for.
            "transaction.max.timeout.ms": "600000",
            f"listener.name.sasl_ssl.{mechanisms}": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
            **shown_at("EXPIRED", self.authority.server(*HOSTS, lasting=timedelta(hours=-1))),
            **shown_at("STRANGE", Authority("strange").server(*HOSTS)),
            **shown_at("MISNAMED", self.authority.server("kafka.example")),
        }

    def by_scram(self) -> dict[str, str]:
        """The fields of a provider who logs in by SCRAM, as a user of its own."""
        name = f"user-{uuid4().hex[:8]}"
        self.add_user(name, f"{name}-password")
        eventually(lambda: self._lets_in(name, f"{name}-password"))
        return {
            "bootstrap_servers": self.sasl_ssl,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "username": name,
            "password": f"{name}-password",
            "ca_certificate": self.certificate,
        }

    def by_certificate(self, days: float = 1) -> dict[str, str]:
        """The fields of a provider who shows a certificate of its own, valid for so long."""
        issued = self.authority.client(f"client-{uuid4().hex[:8]}", timedelta(days=days))
        return {
            "bootstrap_servers": self.ssl,
            "security_protocol": "SSL",
            "ca_certificate": self.certificate,
            "client_certificate": issued.certificate,
            "client_key": issued.key,
        }

    def _lets_in(self, user: str, password: str) -> bool:
        """Return whether the broker has heard of the user, whom the controller knows first."""
        client = AdminClient(
            {
                "bootstrap.servers": self.sasl_ssl,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": password,
                "ssl.ca.pem": self.certificate,
                "log_level": 0,
            }
        )
        try:
            client.list_topics(timeout=5)
        except KafkaException:
            return False
        return True

    def grant(self, command: str) -> None:
        """Do what a `kafka-acls.sh` command says, as the cluster's administrator."""
        words = shlex.split(command)
        assert words[0] == "kafka-acls.sh"
        given: dict[str, list[str]] = {}
        for name, value in pairwise(words):
            if name.startswith("--"):
                given.setdefault(name, []).append(value)
        assert "--add" in given
        bindings = [
            AclBinding(*resource, principal, "*", operation, AclPermissionType.ALLOW)
            for resource in _resources(given, words)
            for principal in given["--allow-principal"]
            for operation in map(_operation, given["--operation"])
        ]
        assert bindings
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in client.create_acls(bindings).values():
            future.result(10)
        # The controller has them; the broker, which answers this itself, hears of them later.
        eventually(lambda: all(_is_known(client, one) for one in bindings))


def _is_known(client: AdminClient, binding: AclBinding) -> bool:
    wanted = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    return bool(client.describe_acls(wanted).result(10))


@contextmanager
def running() -> Iterator[SecuredKafka]:
    """Running within the block, in a folder that the next test run clears away if this one dies."""
    # Read by that module's sweep.
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    Process("owner", folder).remember(os.getpid())
    cluster = SecuredKafka(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        cluster.discard()
        shutil.rmtree(folder, ignore_errors=True)


class Kept:
    """The one that runs, if one does."""

    def __init__(self) -> None:
        self._runs = ExitStack()
        self._cluster: SecuredKafka | None = None

    def started(self) -> SecuredKafka:
        if self._cluster is None:
            self._cluster = self._runs.enter_context(running())
        return self._cluster

    def end(self) -> None:
        self._cluster = None
        self._runs.close()


_kept = Kept()


@pytest.fixture(scope="session")
def _no_secured_kafka_is_left() -> Iterator[None]:
    yield
    _kept.end()


@pytest.fixture(scope="module")
def secured_kafka(_no_secured_kafka_is_left: None) -> SecuredKafka:
    """Started by the first of its files."""
    return _kept.started()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End it with a file that none follows which shares it; clients left over end with each file.

    A cycle keeps those of a test that failed or looked into a run: each has three threads, which
    go on calling a broker that is there no more, as long as the tester lives.
    """
    file = "" if nextitem is None else file_of(nextitem)
    if file == file_of(item):
        return
    if item.get_closest_marker("servers") is not None:
        keep_the_rest()
    if group_of(file) != LOGINS:
        _kept.end()


def _resources(given: dict[str, list[str]], words: list[str]) -> list[tuple[Any, str, Any]]:
    is_prefix = given.get("--resource-pattern-type") == ["prefixed"]
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    found = [
        (RESOURCES[option], name, pattern)
        for option, names in given.items()
        if option in RESOURCES
        for name in names
    ]
    if "--cluster" in words:
        found.append((ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL))
    return found


def _operation(word: str) -> AclOperation:
    spelt = "".join(f"_{c}" if c.isupper() else c.upper() for c in word).lstrip("_")
    return AclOperation[spelt]
