"""The status of a queue as one word, why as one sentence, and what to do now."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from integration.policy.states import PartitionState
from integration.selectors.starting import start_one


class Status(Enum):
    """One word for people: (label, tone). The order is how urgent it is, worst first."""

    BLOCKED = ("Blocked", "red")
    BRAKED = ("Too many failures", "red")
    NO_READER = ("Nobody reads it", "red")
    NO_SENDER = ("Nobody sends it", "red")
    OUTAGE = ("Outage", "orange")
    WAITING = ("Waiting", "orange")
    BACKOFF = ("Waits for a retry", "yellow")
    NOT_STARTED = ("Not started yet", "azure")
    PAUSED = ("Paused", "azure")
    RUNNING = ("Running", "green")
    OFF = ("Switched off", "secondary")

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def tone(self) -> str:
        return self.value[1]

    @property
    def rank(self) -> int:
        """0 for the most urgent one."""
        return list(Status).index(self)

    @property
    def needs_a_person(self) -> bool:
        return self in {Status.BLOCKED, Status.BRAKED, Status.NO_READER, Status.NO_SENDER}


class Situation(NamedTuple):
    """The reason why something stands where it stands, and what to do now, if anything.

    `detail` may name internal hosts: for commands and mails, not for pages.
    """

    why: str
    next_step: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        """Both, for a mail or a line."""
        return f"{self.why} {self.next_step}".strip()


NO_BROKER: Final = Situation(
    "The broker of Celery (Valkey) does not answer, so nothing new is started: no run of a queue, "
    "no schedule, no relay. Work in progress continues, and messages posted to us are accepted.",
    "Start it, or correct SLUICE_CELERY_BROKER_URL. It may come back empty; nothing is lost.",
)
NO_WORKER: Final = Situation(
    "No worker for queues is alive, so nothing is read or tried again.",
    start_one("worker -Q celery"),
)
TAKES_NOTHING: Final = (
    "Bring the Celery broker (Valkey) back if it does not answer: workers continue by themselves. "
    "If it answers, a worker that takes nothing ends within three minutes; start it again unless "
    "something does that for you."
)
IDLE_WORKER: Final = Situation(
    "Workers are alive but take no Celery tasks, so nothing new is read or tried again.",
    TAKES_NOTHING,
)
IDLE_RELAY: Final = Situation(
    "The worker for the relay is alive but takes no Celery tasks, so nothing is sent to Kafka.",
    TAKES_NOTHING,
)
NO_BEAT: Final = Situation(
    "No beat is alive, so no schedule starts anything.",
    start_one("beat"),
)
NO_RELAY: Final = Situation(
    "No worker for the relay is alive, so nothing is sent to Kafka.",
    start_one("worker -Q relay -P solo -c 1"),
)
NO_DRIVER: Final = Situation(
    "Bulk runs wait, and no Spark driver is alive.",
    "Start one with `python manage.py run_spark_driver`.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcesses:
    """The number of processes that showed life; without them nothing below them is fresh.

    `drivers` are those of Spark, which only bulk runs need. Those that take no Celery tasks do not
    count: `no_worker` and `no_relay` say for when there is no other one whether there are such.
    """

    workers: int = 0
    relays: int = 0
    beats: int = 0
    drivers: int = 0
    no_worker: Situation = NO_WORKER
    no_relay: Situation = NO_RELAY

    @property
    def missing(self) -> tuple[Situation, ...]:
        """The processes to be started, the most urgent first; empty when all are there."""
        counts = (
            (self.workers, self.no_worker),
            (self.beats, NO_BEAT),
            (self.relays, self.no_relay),
        )
        return tuple(lack for count, lack in counts if not count)


HANDLER_MISSING: Final = "HANDLER_MISSING"
# Only where messages of other services may pass: a sequential queue waits for one that is off, too.
OR_OFF: Final = (
    "Or switch the service off: its messages are then put on hold, and the others continue."
)
# `{text}` is what the engine wrote when it happened; `{topic}` and `{limit}` are the queue's.
BY_CODE: Final[Mapping[str, Situation]] = MappingProxyType(
    {
        "HEAD_HELD": Situation(
            "The first message failed for good, and the ones behind it must not overtake it. "
            "{text}",
            "Open the failure: correct and release the message, or delete it.",
        ),
        "GAP": Situation(
            "Messages left Kafka before they were read, so they were never tried. {text}",
            "Find out what they were, then acknowledge the gap; the queue continues after it.",
        ),
        "TOPIC_RECREATED": Situation(
            "The topic {topic} was deleted and created again; the position belongs to the old one.",
            "Adopt the new topic from its start or its end, or leave the queue blocked.",
        ),
        "TOPIC_TRUNCATED": Situation(
            "The topic {topic} now ends before what was read of it: its last messages are gone. "
            "{text}",
            "Adopt the topic from its start or its end, or leave the queue blocked.",
        ),
        "TOPIC_GONE": Situation(
            "The topic {topic}, or this partition of it, is not on the cluster any more.",
            "Create the topic again if it is gone and adopt it here, or pause the queue.",
        ),
        "TOO_MANY_OPEN_ERRORS": Situation(
            "Too many failures are open (the limit is {limit}), so no new message is read. {text}",
            "Release or delete failures of this queue, then resume it.",
        ),
        "SAME_FAILURE_IN_A_ROW": Situation(
            "One cause made many messages fail in a row, so no new message is read. {text}",
            "Fix the cause, release what failed, then resume the queue.",
        ),
        "TOO_MANY_PARKED": Situation(
            "Too many messages of one key wait behind its first failure, so no new message is "
            "read. {text}",
            "Release or delete the failure they wait behind, then resume the queue.",
        ),
        "KEYS_MOVED": Situation(
            "A partition was added to {topic}, and earlier messages of its keys may still wait in "
            "the others. {text}",
            "Nothing yet; it is read by itself as soon as the others have come that far.",
        ),
        "SERVICE_DISABLED": Situation(
            "The enterprise service of the next message is switched off. {text}",
            "Switch the service on again; the queue then continues by itself.",
        ),
        "SYSTEM_DISABLED": Situation(
            "The external system of this queue is switched off. {text}",
            "Switch the system on again; the queue then continues by itself.",
        ),
        "HANDLER_MISSING": Situation(
            "No handler for the next message is installed on the worker that met it. {text}",
            "Install the app with the handler, name it in SLUICE_INTEGRATIONS if a package has it, "
            "and restart workers and web server; the queue then continues by itself.",
        ),
        "RETRY_WAIT": Situation(
            "The first message failed and will be tried again. {text}",
            "Nothing yet; open the failure to hold or delete it sooner.",
        ),
        "MORE_PARTITIONS": Situation(
            "The topic {topic} has more than one partition, so the order this queue promises is "
            "lost. {text}",
            "Let the senders write to a topic with one partition, register a queue for it that is "
            "like this one, and switch this one off. A queue that keeps the order of a key can be "
            "changed to keep none: it goes on by itself.",
        ),
        "KEYS_REMAPPED": Situation(
            "The topic {topic} got more partitions, and keys went from one old partition to "
            "another, so the order of keys that this queue promises is lost. {text}",
            "If the order matters, stop the senders. Change the queue so that nothing keeps its "
            "order: it goes on by itself. Once nothing waits, let keys keep theirs again. A number "
            "that is multiplied, such as from 3 to 6, keeps the order.",
        ),
        "ENDPOINT_DOWN": Situation(
            "Nothing is sent at the moment, and no retry is spent. {text}",
            "Bring the endpoint back; one message asks it again every few seconds.",
        ),
        "ENDPOINT_PAUSED": Situation(
            "Messages wait in Kafka until the pause of their endpoint is over. {text}",
            "Nothing yet; end the pause on the endpoint's page to continue sooner.",
        ),
        "ENDPOINT_DISABLED": Situation(
            "Messages wait in Kafka until their endpoint is switched on. {text}",
            "Switch the endpoint on; the queue then continues by itself.",
        ),
        "ENDPOINT_UNUSABLE": Situation(
            "The endpoint cannot be opened with its settings. {text}",
            "Correct them under Set up; the queue checks again by itself.",
        ),
        "TRANSACTION_OPEN": Situation(
            "A transaction in {topic} is not finished yet, so nothing behind its beginning can be "
            "read. {text}",
            "",
        ),
        "TRANSACTION_HANGS": Situation(
            "Another application has left a transaction open in {topic}, and nothing behind its "
            "beginning can be read until it ends. {text}",
            "Start its producer again: that ends the transaction. Or end it with "
            "`kafka-transactions.sh abort`.",
        ),
        "REGISTRY_AWAY": Situation(
            "The registry of the next message's schema is not there; no retry is spent. {text}",
            "Bring the registry back, or correct its address at the provider under Set up; the "
            "queue tries again by itself at growing intervals.",
        ),
        "REGISTRY_REFUSED": Situation(
            "The registry of its messages' schemas refuses the login; no retry is spent. {text}",
            "Correct the registry's user and password at the provider under Set up; the queue "
            "tries again by itself.",
        ),
        "REGISTRY_CERTIFICATE": Situation(
            "There is no safe connection to the registry of its schemas; no retry is spent. {text}",
            "Correct the registry's certificates at the provider under Set up, or have its own "
            "renewed; the queue tries again by itself.",
        ),
        "KAFKA_UNAVAILABLE": Situation(
            "No broker of the provider answers; no retry is spent. {text}",
            "Bring the brokers back; the queue tries again by itself at growing intervals.",
        ),
        "KAFKA_REFUSED": Situation(
            "The broker answers, but refuses our login; no retry is spent. {text}",
            "Correct the provider's user and password under Set up; the queue tries again by "
            "itself.",
        ),
        "KAFKA_CERTIFICATE": Situation(
            "The broker's certificate is not accepted by us, or ours by the broker; no retry is "
            "spent. {text}",
            "Correct the provider's certificates under Set up, or have the brokers' renewed; the "
            "queue tries again by itself.",
        ),
        "KAFKA_RIGHTS": Situation(
            "The broker lets us in, but refuses a right that the queue needs; no retry is spent. "
            "{text}",
            "Check the flow, or test the provider's connection under Set up: both name the missing "
            "right with the command that grants it. The queue tries again by itself.",
        ),
        "KAFKA_GROUP": Situation(
            "The queue is set to join a consumer group, and the cluster does not let it; no retry "
            "is spent. {text}",
            "Check the flow: it names a missing right with the command that grants it. Or choose "
            "another group, or the protocol that the cluster knows, in the queue's form. The queue "
            "tries again by itself.",
        ),
        "KAFKA_PROTOCOL": Situation(
            "The provider's security protocol is not the one that the cluster's port speaks; no "
            "retry is spent. {text}",
            "Correct the security protocol or the bootstrap servers of the provider under Set up; "
            "the queue tries again by itself.",
        ),
        "JMS_UNREACHABLE": Situation(
            "None of the JMS broker's servers answers; no retry is spent. {text}",
            "Bring the broker back, or correct the provider's servers under Set up; the queue "
            "tries again by itself at growing intervals.",
        ),
        "JMS_REFUSED": Situation(
            "The JMS broker answers, but refuses our connection; no retry is spent. {text}",
            "Correct the provider's user and password under Set up; the queue tries again by "
            "itself.",
        ),
        "JMS_CERTIFICATE": Situation(
            "There is no secure connection to the JMS broker; no retry is spent. {text}",
            "Correct the provider's certificates under Set up, or have the broker's renewed; the "
            "queue tries again by itself.",
        ),
        "JMS_RIGHTS": Situation(
            "The JMS broker lets us in, but does not let us read from {topic}; no retry is spent. "
            "{text}",
            "Have the broker's administrator let the provider's user consume there; the queue "
            "tries again by itself.",
        ),
        "JMS_SELECTOR": Situation(
            "The JMS broker does not take the queue's selector; no retry is spent. {text}",
            "Correct the selector in the queue's form, and the queue tries again by itself; with a "
            "durable subscription, make a new queue.",
        ),
        "JMS_ADDRESS_REFUSED": Situation(
            "The JMS broker lets us read nothing from {topic}; no retry is spent. {text}",
            "Check whether it is a queue or a topic at the broker, and who else reads from it; the "
            "queue tries again by itself.",
        ),
        "JMS_TOO_LARGE": Situation(
            "A message that waits at {topic} is larger than any that is read, and all behind it "
            "wait; no retry is spent. {text}",
            "Have the broker's administrator take that message away, and its sender send it in "
            "parts; the queue tries again by itself every minute.",
        ),
        "JMS_IN_USE": Situation(
            "The JMS broker still holds another connection that reads for this queue; no retry is "
            "spent. {text}",
            "Nothing yet: it ends within a minute once its process is gone. Otherwise give one of "
            "two installations another deployment name (SLUICE_DEPLOYMENT).",
        ),
    }
)
BY_STATE: Final[Mapping[PartitionState, Situation]] = MappingProxyType(
    {
        PartitionState.RUNNING: Situation("Nothing stands in the way.", ""),
        PartitionState.BACKOFF: BY_CODE["RETRY_WAIT"],
        PartitionState.BLOCKED: Situation("A person has to decide. {text}", "Read the reason."),
        PartitionState.BRAKED: Situation(
            "Too much failed, so no new message is read. {text}",
            "Fix the cause, then resume the queue.",
        ),
        PartitionState.OUTAGE: Situation(
            "Something every message needs is down, so no retry is spent. {text}",
            "Bring it back; the queue tries again by itself at growing intervals.",
        ),
        PartitionState.WAITING: Situation(
            "Something the next message needs is switched off or missing. {text}",
            "Switch it on or install it; the queue then continues by itself.",
        ),
    }
)


def situation(
    state: PartitionState, code: str, text: str, *, topic: str, limit: int, in_order: bool = True
) -> Situation:
    """The sentence and next step for what the engine found on a partition.

    `in_order`: the queue is sequential, so that nothing goes past a message that waits.
    """
    template = BY_CODE.get(code, BY_STATE[state])
    if code == HANDLER_MISSING and not in_order:
        template = Situation(template.why, f"{template.next_step} {OR_OFF}")
    sentence = text.strip()
    if sentence and sentence[-1] not in ".!?:":
        sentence += "."
    why = template.why.replace("{topic}", topic).replace("{limit}", f"{limit:,}")
    return Situation(why.replace("{text}", sentence).strip(), template.next_step)
