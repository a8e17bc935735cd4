"""What is killed by SIGKILL where a JMS broker is there, too, and in which shares."""

from collections.abc import Mapping
from typing import Final

from bench.faults.deeds import Choice, killing, killing_slot, restarting
from bench.faults.processes import RELAYS, WORKERS, Processes
from devstack.artemis import Artemis
from devstack.servers import Servers

# The servers now and then: while one of them is away, there is less to kill the others at.
SHARES: Final[Mapping[str, int]] = {
    "worker": 4,
    "pool_process": 4,
    "relay": 3,
    "kafka": 1,
    "jms_broker": 1,
    "postgres": 1,
}


def choices(processes: Processes, servers: Servers, broker: Artemis) -> dict[str, Choice]:
    return {
        "worker": killing(processes, WORKERS),
        "pool_process": killing_slot(processes),
        "relay": killing(processes, RELAYS),
        "kafka": restarting(servers.kafka),
        "jms_broker": restarting(broker),
        "postgres": restarting(servers.postgres),
    }
