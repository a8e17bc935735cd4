"""Apache Artemis: a JMS broker that speaks AMQP 1.0, run from its jars without an installation."""

import os
import secrets
import socket
from pathlib import Path
from typing import ClassVar

from devstack import errors, java, paths
from devstack.kafka import QUICK_START
from devstack.overriding import override
from devstack.server import Server
from devstack.supervise import Command

JARS = paths.FETCHED / "artemis"
MAIN = "org.apache.activemq.artemis.core.server.embedded.Main"
USER = "sluice"
# May log in, and nothing else.
STRANGER = "stranger"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
# What Artemis keeps of duplicate ids for each address, and beyond a restart.
DUPLICATE_IDS = 20_000
CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <name>sluice</name>
  <persistence-enabled>true</persistence-enabled>
  <security-enabled>true</security-enabled>
  <journal-type>NIO</journal-type>
  <journal-directory>{data}/journal</journal-directory>
  <bindings-directory>{data}/bindings</bindings-directory>
  <large-messages-directory>{data}/large</large-messages-directory>
  <paging-directory>{data}/paging</paging-directory>
  <journal-min-files>2</journal-min-files>
  <journal-pool-files>4</journal-pool-files>
  <journal-file-size>1M</journal-file-size>
  <id-cache-size>{ids}</id-cache-size>
  <persist-id-cache>true</persist-id-cache>
  <max-disk-usage>99</max-disk-usage>
  <acceptors>{acceptors}</acceptors>
  <security-settings><security-setting match="#">
    <permission type="createAddress" roles="sender"/>
    <permission type="createDurableQueue" roles="sender"/>
    <permission type="createNonDurableQueue" roles="sender"/>
    <permission type="deleteNonDurableQueue" roles="sender"/>
    <permission type="send" roles="sender"/>
    <permission type="consume" roles="sender"/>
    <permission type="browse" roles="sender"/>
  </security-setting></security-settings>
  <address-settings>
    <address-setting match="#">
      <max-delivery-attempts>-1</max-delivery-attempts>
      <auto-delete-queues>false</auto-delete-queues>
      <auto-delete-addresses>false</auto-delete-addresses>
    </address-setting>
    <address-setting match="full.#">
      <max-size-messages>1</max-size-messages>
      <address-full-policy>FAIL</address-full-policy>
    </address-setting>
  </address-settings>
</core></configuration>
"""
LOGINS = """activemq {
  org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
  org.apache.activemq.jaas.properties.user="users.properties"
  org.apache.activemq.jaas.properties.role="roles.properties";
};
"""


class Artemis(Server):
    """Listens on loopback for AMQP 1.0, with logins; with `tls` also on a second port.

    `tls` is a certificate with its key, both as PEM, and the port.
    """

    name: ClassVar[str] = "artemis"
    title: ClassVar[str] = "JMS broker"

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        durable: bool = False,
        tls: tuple[str, str, int] | None = None,
    ) -> None:
        super().__init__(folder, port, durable=durable)
        self._tls = tls
        self._home = folder / "artemis"
        self._logins = self._home / "etc"

    @property
    def password(self) -> str:
        """The password of every user."""
        return (self._home / "password").read_text()

    def told(self) -> str:
        return (
            f"JMS broker: AMQP 1.0 at 127.0.0.1:{self.port}, user {USER}, password {self.password} "
            "(enter them at an endpoint)"
        )

    @override
    def prepare(self) -> None:
        if not self._logins.exists():
            self._make_logins()
        # Each time: what a release says of it counts for brokers that are there, too.
        words = {
            "data": self._home / "data",
            "ids": DUPLICATE_IDS,
            "acceptors": "".join(self._acceptors()),
        }
        (self._logins / "broker.xml").write_text(CONFIGURATION.format(**words))

    @override
    def command(self) -> Command:
        jars = sorted(JARS.glob("*.jar"))
        if not jars:
            raise errors.not_set_up("The JMS broker")
        return Command(
            argv=[
                java.find(),
                *("-Xms128m", "-Xmx256m", *QUICK_START, "-Djava.awt.headless=true"),
                f"-Djava.security.auth.login.config={self._logins / 'login.config'}",
                *("-cp", os.pathsep.join([str(self._logins), *map(str, jars)])),
                *(MAIN, self._home),
            ],
            environment=os.environ,
            folder=self._home,
        )

    @override
    def is_answering(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as asked:
                asked.sendall(SASL_HEADER)
                return asked.recv(len(SASL_HEADER)) == SASL_HEADER
        except OSError:
            return False

    def _make_logins(self) -> None:
        self._logins.mkdir(parents=True)
        password = secrets.token_urlsafe(12)
        (self._home / "password").write_text(password)
        (self._logins / "login.config").write_text(LOGINS)
        users = "".join(f"{user}={password}\n" for user in (USER, STRANGER))
        (self._logins / "users.properties").write_text(users)
        (self._logins / "roles.properties").write_text(f"sender={USER}\nnobody={STRANGER}\n")

    def _acceptors(self) -> list[str]:
        spoken = "protocols=CORE,AMQP;amqpDuplicateDetection=true;securityDomain=activemq"
        found = [f'<acceptor name="amqp">tcp://127.0.0.1:{self.port}?{spoken}</acceptor>']
        if self._tls is not None:
            certificate, key, port = self._tls
            file = self._home / "broker.p12"
            _keep(file, certificate, key)
            options = f"sslEnabled=true;keyStoreType=PKCS12;keyStorePath={file}"
            secured = f"tcp://127.0.0.1:{port}?{spoken};{options};keyStorePassword=sluice"
            found.append(f'<acceptor name="amqps">{secured}</acceptor>')
        return found


def _keep(file: Path, certificate: str, key: str) -> None:
    """Write both as Java reads them. The library is there once all is set up."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    made = pkcs12.serialize_key_and_certificates(
        b"broker",
        serialization.load_pem_private_key(key.encode(), None),  # type: ignore[arg-type]
        x509.load_pem_x509_certificate(certificate.encode()),
        None,
        serialization.BestAvailableEncryption(b"sluice"),
    )
    file.write_bytes(made)
