"""Kafka as a company runs it: logins, certificates and rights, beside the open port on loopback.

Needs the packages of the product: import this only once they are set up.
"""

import json
import secrets
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from devstack import keys
from devstack.certificates import Authority, Issued
from devstack.kafka import Kafka
from devstack.overriding import override

USER = "sluice"
HOSTS = ("127.0.0.1", "localhost")
ITERATIONS = 4_096
ANSWER_SECONDS = 20.0
PORT_NAMES = ("kafka-sasl-ssl", "kafka-ssl")


class SecuredKafka(Kafka):
    """Everything is refused that is not granted, but to whoever comes by the open port.

    `sasl_ssl` asks for a login by SCRAM-SHA-512, `ssl` for a certificate of our authority. What
    their clients need lies in `folder`/kafka/access.
    """

    sasl_ssl_port: int
    ssl_port: int

    def __init__(self, folder: Path, port: int, *, controller_port: int, durable: bool) -> None:
        super().__init__(folder, port, controller_port=controller_port, durable=durable)
        self.access = self.room / "access"
        self.authority = Authority()

    @property
    def sasl_ssl(self) -> str:
        return f"127.0.0.1:{self.sasl_ssl_port}"

    @property
    def ssl(self) -> str:
        return f"127.0.0.1:{self.ssl_port}"

    @property
    def password(self) -> str:
        """The password of USER, made once."""
        file = self.access / "password.json"
        if not file.exists():
            keys.write_private(file, json.dumps({USER: secrets.token_urlsafe(24)}))
        return str(json.loads(file.read_text())[USER])

    @override
    def prepare(self) -> None:
        super().prepare()
        ours = self.authority.client(USER)
        (self.access / "ca.pem").write_text(self.authority.certificate)
        (self.access / "client.pem").write_text(ours.certificate)
        keys.write_private(self.access / "client-key.pem", ours.key)

    @override
    def start(self) -> None:
        super().start()
        self.add_user(USER, self.password)

    def add_user(self, name: str, password: str) -> None:
        """Let somebody log in by SCRAM, by this password from now on."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
        login = UserScramCredentialUpsertion(name, how, password.encode())
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for future in client.alter_user_scram_credentials([login]).values():
            future.result(ANSWER_SECONDS)

    @override
    def told(self) -> list[str]:
        """Lines that tell a person how to get in."""
        password = self.access / "password.json"
        return [
            f"SASL_SSL, SCRAM-SHA-512: {self.sasl_ssl}, user {USER}, password in {password}",
            f"SSL with a client certificate: {self.ssl}, client.pem and client-key.pem",
            f"Authority of both: {self.access / 'ca.pem'}. Nothing is granted yet.",
        ]

    @override
    def more(self) -> dict[str, str]:
        """What the properties of the open Kafka lack."""
        self.access.mkdir(parents=True, exist_ok=True)
        listeners = self.listeners()
        own = {"CONTROLLER": f"127.0.0.1:{self.controller_port}"}
        return {
            "listeners": _addresses({**listeners, **own}),
            "advertised.listeners": _addresses({**listeners, **self.advertised()}),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in self.protocols().items()
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # Who comes by the open port, the broker itself among them, may do everything.
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": on_one_line(self.authority.certificate),
            **shown_at("", self.authority.server(*HOSTS)),
        }

    def listeners(self) -> dict[str, str]:
        """The addresses it listens at, by listener; without the controller's."""
        return {"PLAINTEXT": self.bootstrap, "SASL_SSL": self.sasl_ssl, "SSL": self.ssl}

    def advertised(self) -> dict[str, str]:
        """Where clients are sent by listeners that send them elsewhere."""
        return {}

    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener."""
        return {
            "CONTROLLER": "PLAINTEXT",
            "PLAINTEXT": "PLAINTEXT",
            "SASL_SSL": "SASL_SSL",
            "SSL": "SSL",
        }


def secured(kafka: Kafka, sasl_ssl_port: int, ssl_port: int) -> SecuredKafka:
    """Describe the same Kafka with these two ports besides."""
    made = SecuredKafka(
        kafka.folder, kafka.port, controller_port=kafka.controller_port, durable=kafka.durable
    )
    made.sasl_ssl_port, made.ssl_port = sasl_ssl_port, ssl_port
    return made


def shown_at(listener: str, issued: Issued) -> dict[str, str]:
    """The properties by which a listener shows a certificate; those of all without a name."""
    prefix = f"listener.name.{listener.lower()}." if listener else ""
    return {
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.certificate.chain": on_one_line(issued.certificate),
        f"{prefix}ssl.keystore.key": on_one_line(issued.key),
    }


def on_one_line(pem: str) -> str:
    """As a file of properties takes it."""
    return pem.strip().replace("\n", "\\n")


def _addresses(listeners: dict[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())
