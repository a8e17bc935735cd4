"""A Kafka of its own with logins and rights: everything is refused that is not granted."""

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from devstack import kafka, ports
from devstack.kafka import Kafka
from tests.support.certificates import self_signed

USER, PASSWORD = "sluice", "its-password"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class SecuredKafka(Kafka):
    """Its own port is open to anybody, who may do everything; `secured` asks for a login.

    `misled` is open too, and sends its clients on to an address where nobody is. `encrypted`
    speaks TLS, `sealed` TLS and asks for a login, `mutual` TLS and asks for a certificate.
    """

    def __init__(self, folder: Path) -> None:
        chosen: list[int] = []
        for _ in range(7):
            chosen.append(ports.choose(chosen))
        super().__init__(folder, chosen[0], controller_port=chosen[1], durable=False)
        others = [f"127.0.0.1:{port}" for port in chosen[2:]]
        self.secured, self.misled, self.encrypted, self.sealed, self.mutual = others
        self.certificate, self._key = self_signed()

    def prepare(self) -> None:
        super().prepare()
        ours = (
            f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.secured},SSL://{self.encrypted},"
            f"SASL_SSL://{self.sealed},MUTUAL://{self.mutual}"
        )
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        more = {
            "listeners": f"{ours},MISLED://{self.misled},{controller}",
            "advertised.listeners": f"{ours},MISLED://127.0.0.1:1",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "MISLED:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,MUTUAL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{LOGIN} user_{USER}="{PASSWORD}" user_other="other";'
            ),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{LOGIN} user_{USER}="{PASSWORD}";',
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _on_one_line(self.certificate),
            "ssl.keystore.key": _on_one_line(self._key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": _on_one_line(self.certificate),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        wanted = kafka.properties(
            port=self.port, controller_port=self.controller_port, log_dirs=self.room / "data"
        )
        rows = [f"{name}={value}\n" for name, value in {**wanted, **more}.items()]
        self._properties.write_text("".join(rows))

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


def _on_one_line(pem: str) -> str:
    """As a file of properties takes it."""
    return pem.strip().replace("\n", "\\n")


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
