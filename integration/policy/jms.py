"""What a queue can be that reads from a JMS broker, and what only such a one has.

Its messages have no offsets until they are through: they are worked one batch after the other, by
one run, and what failed waits in the database. Carrier and rescue have no effect there, whatever
they are set to: a retry waits in its row, and the broker keeps what was not accepted.
"""

from collections.abc import Iterator, Mapping
from typing import Final

# What a queue of a JMS broker cannot be, and what to do about it; by field.
CANNOT: Final = {
    "endpoint": (
        "From a JMS broker an outbound queue leads to a topic of Kafka: choose an endpoint of that "
        "type. To send to a JMS broker, make a queue at Kafka with an endpoint there."
    ),
    "is_error_queue": "Failures are copied to a topic of Kafka: leave it off.",
    "group_protocol": "A JMS broker has no consumer groups: leave it at none.",
    "concurrency": "Messages of a JMS broker are worked one after the other: write 1.",
    "workers": "One run reads from a JMS broker: leave it out.",
}
# What only a queue of a JMS broker has.
ONLY: Final = ("subscription", "selector")

# By whether it speaks TLS.
DEFAULT_PORTS: Final = {False: 5672, True: 5671}


def servers(addresses: str, *, has_tls: bool) -> Iterator[tuple[str, int]]:
    """Yield the hosts and ports of a broker's servers, in their order.

    >>> list(servers("one:5673, [::1]", has_tls=False))
    [('one', 5673), ('::1', 5672)]
    """
    for server in map(str.strip, addresses.split(",")):
        host, _, port = server.rpartition(":")
        is_whole = bool(host) and port.isdigit()
        name, number = (host, int(port)) if is_whole else (server, DEFAULT_PORTS[has_tls])
        yield name.strip("[]"), number


def mistakes(wants: Mapping[str, bool], *, is_jms: bool) -> dict[str, str]:
    """Tell, by field, which of the wanted features the queue cannot have.

    `wants` tells of each field in CANNOT and ONLY whether the queue asks for that.
    """
    wanted = {name for name, is_wanted in wants.items() if is_wanted}
    if is_jms:
        return {name: text for name, text in CANNOT.items() if name in wanted}
    text = "Only a queue of a JMS broker has this: leave it out."
    return {name: text for name in ONLY if name in wanted}


def connection_name(deployment: str, queue: str) -> str:
    """Return what the connection of a queue's runs is called; one at a time has that name.

    A durable subscription belongs to it, too.

    >>> connection_name("plant-1", "orders-in")
    'sluice-plant-1-orders-in'
    """
    return f"sluice-{deployment}-{queue}"
