"""One run over both bridges, from its start to its account."""

import json
import time
from dataclasses import dataclass
from typing import Any, Final

from bench import interrupting, jms, jms_client, traffic
from bench.bridges import accounting
from bench.chaos import accounting as endings
from bench.faults import kills
from bench.faults.processes import Processes
from bench.faults.sequence import Faults
from bench.faults.settling import QUIET_SECONDS, State, settle
from bench.rig import BenchmarkError, Rig
from devstack.artemis import Artemis
from devstack.servers import Servers
from devstack.supervise import Process

# The JMS queue that the client sends to, the topic between the bridges, and its other end.
SOURCE: Final = "orders"
TOPIC: Final = "bridged-orders"
TARGET: Final = "orders-again"
EGRESS: Final = "from-jms"
INGRESS: Final = "to-jms"
PARTITIONS: Final = 4
AT_ONCE: Final = 10
CONCURRENCY: Final = 4
RETRY_SECONDS: Final = 2.0
PER_SECOND: Final = 120.0
# From one kill to the next, on the average.
KILL_SECONDS: Final = 5.0
LEAST_SECONDS: Final = 20.0
LONGEST_SECONDS: Final = 3_600.0
RECEIVED_WITHIN_SECONDS: Final = 600.0
# Messages that were sent again have ids of their own where the broker did not drop them.
_TRACKS: Final = """
SELECT count(*), count(DISTINCT (queue_id, message_id)) FROM integration_messagetrack
"""
_STOPPED: Final = """
SELECT count(*) FROM integration_queuepartition WHERE state IN ('BLOCKED', 'BRAKED')
"""
_OPEN: Final = endings.total("open failures", "outgoing rows", "calls in doubt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many messages, how many kills, and the seed of their order."""

    count: int
    kills: int
    seed: str

    @property
    def seconds(self) -> int:
        """Over so long the messages are sent: as long as the kills last."""
        return round(max(LEAST_SECONDS, self.count / PER_SECOND, self.kills * KILL_SECONDS))


class BridgeRun:
    """Everything of one run. `carry_out` once."""

    def __init__(self, rig: Rig, servers: Servers, broker: Artemis, plan: Plan) -> None:
        self.rig = rig
        self.broker = broker
        self.plan = plan
        self.processes = Processes(rig)
        self.faults = Faults(
            kills.choices(self.processes, servers, broker),
            plan.seed,
            LONGEST_SECONDS,
            rig.folder / "faults.jsonl",
            shares=kills.SHARES,
            most=plan.kills,
        )

    def carry_out(self) -> dict[str, Any]:
        """Send, kill, let everything come to its end, receive, and return the line."""
        self._configure()
        self.processes.start_all()
        # The session would not outlive the first fault.
        self.rig.forget_session()
        began = time.monotonic()
        sender = self._client(jms_client.SEND, SOURCE, self.plan.count, self.plan.seconds)
        self.faults.start()
        try:
            self._until_sent(sender)
        finally:
            # Whatever happens: nothing is started any more once the servers end.
            self.faults.heal()
        interrupting.say(f"{self.faults.done.total()} kills; waiting for what is left")
        self.processes.start_dead()
        caught_up = settle(self._state)
        seconds = time.monotonic() - began - QUIET_SECONDS
        received = self._received()
        forced = self.processes.stop_all()
        return self._line(sender.log.read_text(), received, forced) | {
            "seconds": round(seconds, 1),
            "caught_up_seconds": caught_up,
        }

    def _configure(self) -> None:
        traffic.make_topic(self.rig.bootstrap, TOPIC, PARTITIONS)
        egress = {
            "name": EGRESS,
            "topic": SOURCE,
            "kind": "sequential",
            "rescue": False,
            "carrier": "row",
            "jms": jms.login(self.broker),
            "forwards_to": TOPIC,
        }
        ingress = {
            "name": INGRESS,
            "topic": TOPIC,
            "kind": "continuous",
            "ordering": "key",
            "concurrency": CONCURRENCY,
            # Behind a message whose answer was lost its whole group waits.
            "retry_delay_seconds": RETRY_SECONDS,
            "unlimited_retries": True,
            "address": "http://127.0.0.1/",
            "idempotent": True,
        }
        self.rig.configure(egress, ingress)
        more = {"at_once": AT_ONCE, "restores": True}
        endpoint = jms.endpoint(INGRESS, self.broker, TARGET, **more)
        self.rig.manage("bench_endpoint", stdin=json.dumps(endpoint))

    def _client(self, verb: str, queue: str, count: int, seconds: int = 0) -> Process:
        how = jms_client.command(self.broker, verb, queue, count, seconds=seconds, lasting=True)
        return self.rig.begin(f"client-{verb}", how)

    def _until_sent(self, sender: Process) -> None:
        """Wait for the end of the client and of the kills. Raises BenchmarkError."""
        self.rig.until(lambda: not sender.is_alive(), "everything is sent", LONGEST_SECONDS)
        told = len(jms_client.told(sender.log.read_text()))
        if told != self.plan.count:
            raise BenchmarkError(f"the client sent {told} messages (log: {sender.log})")
        self.faults.join()

    def _state(self) -> State:
        ended, through = self.rig.rows(_TRACKS)[0]
        open_ = int(self.rig.value(_OPEN))
        return State(ended, max(2 * self.plan.count - through, 0) + open_)

    def _received(self) -> list[str]:
        """All that the last JMS queue has: the client waits for more than there should be."""
        receiver = self._client(jms_client.RECEIVE, TARGET, 2 * self.plan.count)
        ended = "the client has received what there is"
        self.rig.until(lambda: not receiver.is_alive(), ended, RECEIVED_WITHIN_SECONDS)
        return jms_client.told(receiver.log.read_text())

    def _line(self, sent: str, received: list[str], forced: list[str]) -> dict[str, Any]:
        left = endings.left(self.rig, endings.WITHOUT_BOOK, forced)
        if stopped := int(self.rig.value(_STOPPED)):
            left["partitions that wait for a person"] = stopped
        for queue in (SOURCE, TARGET):
            if untaken := len(jms.taken(self.broker, queue)):
                left[f"messages in {queue}"] = untaken
        wrong = accounting.compare(jms_client.told(sent), received)
        interrupting.show(wrong)
        return {
            "sent": self.plan.count,
            "received": len(received),
            **{name: len(ones) for name, ones in wrong.items()},
            "kills": self.faults.done.total(),
            "killed": {kind: self.faults.done[kind] for kind in kills.SHARES},
            "sent_again": jms_client.sent_again(sent),
            "left_over": left,
        }
