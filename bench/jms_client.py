"""A partner's Java program at a JMS broker: how it is started, and the lines in which it tells."""

import os
from typing import Final

from devstack import java, paths
from devstack.artemis import JARS, USER, Artemis
from devstack.kafka import QUICK_START
from devstack.supervise import Command

SEND: Final = "send"
RECEIVE: Final = "receive"
# Of Artemis' client: it comes back however long the broker is away.
LASTING: Final = "?reconnectAttempts=-1&retryInterval=200"
_SOURCE: Final = paths.ROOT / "tests" / "support" / "JmsClient.java"
_AGAIN: Final = "sent again: "


def command(
    server: Artemis, verb: str, queue: str, count: int, *, seconds: int = 0, lasting: bool = False
) -> Command:
    """Run it from its source: send so many messages over so many seconds, or receive so many.

    `lasting`: it survives the broker's restarts.
    """
    url = f"tcp://127.0.0.1:{server.port}{LASTING if lasting else ''}"
    jars = os.pathsep.join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    # Its source is UTF-8 wherever it is compiled.
    options = ["-Xmx128m", *QUICK_START, "-Dfile.encoding=UTF-8", "-cp", jars]
    words = [verb, url, USER, server.password, queue, str(count), "0", str(seconds)]
    return Command(
        argv=[java.find(), *options, _SOURCE, *words], environment=os.environ, folder=paths.ROOT
    )


def told(output: str) -> list[str]:
    """What it told of each message."""
    return [line for line in output.splitlines() if " | " in line]


def sent_again(output: str) -> int:
    """How often it had no answer to a message."""
    return sum(line.startswith(_AGAIN) for line in output.splitlines())
