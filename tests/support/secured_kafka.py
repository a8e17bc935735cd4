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

from devstack import kafka
from devstack.kafka import Kafka

USER, PASSWORD = "sluice", "its-password"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class SecuredKafka(Kafka):
    """Its own port is open to anybody, who may do everything; `secured` asks for a login.

    `misled` is open too, and sends its clients on to an address where nobody is.
    """

    def __init__(self, folder: Path, ports: tuple[int, int, int, int]) -> None:
        super().__init__(folder, ports[0], controller_port=ports[1], durable=False)
        self.secured_port = ports[2]
        self.misled = f"127.0.0.1:{ports[3]}"

    @property
    def secured(self) -> str:
        return f"127.0.0.1:{self.secured_port}"

    def prepare(self) -> None:
        super().prepare()
        plain, secured = f"PLAINTEXT://{self.bootstrap}", f"SASL_PLAINTEXT://{self.secured}"
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        more = {
            "listeners": f"{plain},{secured},MISLED://{self.misled},{controller}",
            "advertised.listeners": f"{plain},{secured},MISLED://127.0.0.1:1",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "MISLED:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{LOGIN} user_{USER}="{PASSWORD}" user_other="other";'
            ),
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
