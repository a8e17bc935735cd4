"""The endpoint types that come with Sluice: a package for each, and a line here."""

from integration.endpoint_types.amqp.properties import AmqpProperties
from integration.endpoint_types.database.properties import DatabaseProperties
from integration.endpoint_types.file.properties import FileProperties
from integration.endpoint_types.http.properties import HttpProperties
from integration.endpoint_types.kafka.forwarding import forward_of
from integration.endpoint_types.kafka.properties import KafkaProperties
from integration.endpoint_types.python.properties import PythonProperties
from integration.endpoints.properties import register


def register_types() -> None:
    """Make them known, in the order in which pages offer them."""
    register("http", HttpProperties, "integration.endpoint_types.http.endpoint.HttpEndpoint")
    register("file", FileProperties, "integration.endpoint_types.file.endpoint.opened")
    register("database", DatabaseProperties, "integration.endpoint_types.database.endpoint.opened")
    register(
        "python", PythonProperties, "integration.endpoint_types.python.endpoint.PythonEndpoint"
    )
    register(
        "kafka",
        KafkaProperties,
        "integration.endpoint_types.kafka.endpoint.KafkaEndpoint",
        forward_of,
    )
    register("amqp", AmqpProperties, "integration.endpoint_types.amqp.opening.opened")
