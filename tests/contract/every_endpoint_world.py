"""The worlds of all endpoint types, by their names."""

from collections.abc import Callable
from pathlib import Path

from tests.contract.amqp_endpoint_world import AmqpWorld
from tests.contract.endpoint_worlds import (
    DatabaseWorld,
    EndpointWorld,
    FileWorld,
    HttpWorld,
    MemoryWorld,
    PythonWorld,
)
from tests.contract.topic_endpoint_world import TopicWorld

WORLDS: dict[str, Callable[[Path], EndpointWorld]] = {
    "memory": MemoryWorld,
    "http": HttpWorld,
    "file": FileWorld,
    "database": DatabaseWorld,
    "python": PythonWorld,
    "kafka": TopicWorld,
    "amqp": AmqpWorld,
}
