"""A Kafka of its own that asks for a user and a password, besides the session's open one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack import ports
from devstack.kafka import Kafka
from devstack.overriding import override
from devstack.servers import in_folder
from devstack.supervise import Process
from tests.support.servers import PREFIX

USER = "sluice"
RIGHT_PASSWORD = "the-right-one"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class SaslKafka(Kafka):
    """The broker of devstack with one more listener, which lets in only who knows the password."""

    sasl_port: int

    @property
    def sasl_bootstrap(self) -> str:
        return f"127.0.0.1:{self.sasl_port}"

    @override
    def prepare(self) -> None:
        super().prepare()
        with self._properties.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in self._listeners().items())

    def _listeners(self) -> dict[str, str]:
        """Later lines of the file win over those that devstack wrote."""
        open_one, asking = f"PLAINTEXT://{self.bootstrap}", f"SASL://{self.sasl_bootstrap}"
        return {
            "listeners": f"{open_one},{asking},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"{open_one},{asking}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f'{LOGIN} user_{USER}="{RIGHT_PASSWORD}";',
        }


@contextmanager
def sasl_kafka() -> Iterator[SaslKafka]:
    """Running within the block, in a folder that the next test run clears away if this one dies."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    Process("owner", folder).remember(os.getpid())
    described = in_folder(folder, durable=False)
    plain = described.kafka
    asking = SaslKafka(folder, plain.port, controller_port=plain.controller_port, durable=False)
    asking.sasl_port = ports.choose([plain.port, plain.controller_port])
    try:
        asking.start()
        yield asking
    finally:
        described.destroy()
