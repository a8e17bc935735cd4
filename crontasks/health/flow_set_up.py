"""The links of the flow check that people set up: provider, system, service, switches, topic."""

from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

from crontasks.health.checks import Finding
from integration import registration
from integration.amqp.errors import (
    JmsBrowseRefusedError,
    JmsLibraryMissingError,
    JmsSubscriptionHiddenError,
)
from integration.amqp.installed import found
from integration.counting import so_many
from integration.documents.patterns import BadPattern
from integration.documents.schemas import check_patterns
from integration.errors import IntegrationError
from integration.handlers.registry import registry as handlers
from integration.http_api import routes
from integration.kafka import admin
from integration.models import Provider, Queue
from integration.selectors.queues import waiting
from integration.selectors.queues.status import Situation
from integration.selectors.setup import examination, jms


def provider(queue: Queue) -> Finding:
    return reachable(queue.provider)


def reachable(provider: Provider) -> Finding:
    """Ask it who it is; a JMS broker tells no more than that it lets us in."""
    if provider.is_jms:
        try:
            jms.connect(provider)
        except IntegrationError as e:
            return Situation(f"{provider.name}: {e.code}: {e.sentence}", e.next_step)
        return f"The JMS broker {provider.name} lets us in."
    reach = admin.reachable(provider)
    if reach.ok:
        return reach.text
    return Situation(reach.text, reach.next_step)


def rights(queue: Queue) -> Finding:
    """Check our rights on the topic, the group and the transactional ids that this queue needs."""
    missing = examination.missing_rights(queue)
    if missing is None:
        return "They can be asked for once the provider lets us in."
    if not missing:
        return "Nothing that this queue needs is refused to us."
    lacking = "; ".join(
        f"{', '.join(one.refused)} on {one.title[0].lower()}{one.title[1:]}" for one in missing
    )
    return Situation(
        f"The cluster of {queue.provider.name} refuses us: {lacking}.",
        "Let its administrator run: " + " && ".join(one.command for one in missing),
    )


def system(queue: Queue) -> Finding:
    if queue.system is None:
        return "The queue belongs to no external system."
    if queue.system.enabled:
        return f"{queue.system.name} is switched on.{_of_posts(queue)}"
    return Situation(
        f"{queue.system.name} is switched off, so its messages wait.",
        f"Switch the external system {queue.system.name} on.",
    )


def _of_posts(queue: Queue) -> str:
    """What hinders posts hinders no messages in the topic: it is said, and no fault."""
    names = [] if queue.system_id is None else routes.shared(queue.system_id)
    if queue.name not in names or len(names) == 1:
        return ""
    return (
        f" Of its queues {' and '.join(names)} have no default service, so posts over HTTP for "
        "services without a queue of their own are refused (AMBIGUOUS_QUEUE): leave one so."
    )


def service(queue: Queue) -> Finding:
    taker = queue.default_service
    if queue.is_error_queue:
        return "An error queue hands its records to people."
    if taker is None:
        return "No default; every message names its service itself."
    if not taker.enabled:
        text = f"The default service {taker.interface} is switched off."
        return Situation(text, f"Switch the enterprise service {taker.interface} on.")
    if taker.structure is None and handlers.get(taker.interface) is None:
        return Situation(
            f"No handler for {taker.interface} is installed here, and it has no structure.",
            "Install the app that has the handler (SLUICE_INTEGRATIONS), or choose a structure.",
        )
    if taker.structure is not None:
        try:
            check_patterns(taker.structure.json_schema)
        except BadPattern as e:
            text = f"Messages are held ({e.code}): {e.sentence}"
            how = f"Correct the JSON Schema of the structure {taker.structure.name}. {e.next_step}"
            return Situation(text, how)
    return f"{taker.interface} takes what names no service itself."


def switches(queue: Queue) -> Finding:
    if not queue.enabled:
        return Situation("The queue is switched off.", "Switch the queue on.")
    if queue.paused:
        reason = f": {queue.pause_reason.rstrip('. ')}" if queue.pause_reason else ""
        return Situation(f"The queue is paused{reason}.", "Resume the queue.")
    return "Switched on, not paused."


def address(queue: Queue) -> Finding:
    """Look at what waits there; that the broker does not let us look hinders nobody from reading.

    The first run makes an address where the broker makes addresses by itself; so does a look.
    """
    try:
        with closing(waiting.browser_of(queue.provider, "flow")) as browser:
            depth = waiting.depth(browser, queue)
    except (JmsBrowseRefusedError, JmsSubscriptionHiddenError) as e:
        return f"How many messages wait is not known ({e.code}): {e.sentence} {e.next_step}"
    except IntegrationError as e:
        return Situation(f"{e.code}: {e.sentence}", e.next_step)
    if not depth.count and depth.is_all:
        return f"Nothing waits at {queue.topic}."
    least = "" if depth.is_all else "At least "
    waits = so_many(depth.count, "message waits", "messages wait")
    return f"{least}{waits} at {queue.topic}."


def topic(queue: Queue) -> Finding:
    try:
        facts = admin.topic_facts(queue.provider, queue.topic)
    except IntegrationError as e:
        return Situation(e.sentence, "Fix the provider first.")
    unfit = unfit_topic(queue, None if facts is None else facts.partitions)
    if facts is None or unfit is not None:
        return unfit or ""
    uuids = set(queue.partitions.values_list("topic_uuid", flat=True))
    if uuids - {facts.topic_uuid}:
        text = f"{queue.topic} was deleted and created again since the positions were taken."
        return Situation(text, "Open the queue and choose where the new topic is read from.")
    messages = sum(facts.high[p] - facts.low[p] for p in facts.low)
    held = f"{so_many(facts.partitions, 'partition')}, at most {so_many(messages, 'message')}."
    return f"{held} {_topic_settings(queue)}"


def unfit_topic(queue: Queue, partitions: int | None) -> Situation | None:
    """Why the queue cannot begin on its topic of so many partitions (None: there is none)."""
    if partitions is None:
        return Situation(
            f"The topic {queue.topic} does not exist.", "Create it, or correct the queue's topic."
        )
    if queue.keeps_order and partitions > 1:
        return Situation(
            f"{queue.topic} has {partitions} partitions; a sequential queue needs one.",
            "Use a topic with one partition, or make the queue continuous.",
        )
    return None


class UnfitTopics(NamedTuple):
    """A sentence for each queue that cannot begin on its topic, and for each silent provider."""

    unfit: list[str]
    silent: list[str]


def unfit_topics(queues: Iterable[Queue]) -> UnfitTopics:
    """Look at the topics of the queues at Kafka; each cluster is asked once."""
    there: dict[int, dict[str, int] | None] = {}
    told = UnfitTopics([], [])
    for queue in queues:
        if queue.provider.is_jms:
            _note_library(queue.provider, told.silent)
            continue
        if queue.provider_id not in there:
            there[queue.provider_id] = _topics(queue.provider, told.silent)
        listed = there[queue.provider_id]
        unfit = None if listed is None else unfit_topic(queue, listed.get(queue.topic))
        if unfit is not None:
            told.unfit.append(f"{queue.name}: {unfit.why} {unfit.next_step}")
    return told


def _note_library(provider: Provider, silent: list[str]) -> None:
    """What a broker of JMS has is found out by its first run, which needs the library."""
    try:
        found("browsing.Browser")
    except JmsLibraryMissingError as e:
        sentence = f"provider {provider.name}: {e.code}: {e.sentence} {e.next_step}"
        if sentence not in silent:
            silent.append(sentence)


def _topics(provider: Provider, silent: list[str]) -> dict[str, int] | None:
    try:
        return admin.topics(provider)
    except IntegrationError as e:
        why = f"{e.code}: {e.sentence}"
        silent.append(f"provider {provider.name}: its topics were not looked at. {why}")
        return None


def awaits_group(queue: Queue) -> bool:
    """Return whether its first position is still to be taken over from a consumer group."""
    return queue.start_from == Queue.StartFrom.GROUP and not queue.partitions.exists()


def start(queue: Queue) -> Finding:
    """Check that the first run can begin where the consumer group stands."""
    try:
        registration.check_group(queue)
    except IntegrationError as e:
        return Situation(f"{e.code}: {e.sentence}", e.next_step or "Fix the provider first.")
    return f"The first run begins where the consumer group {queue.start_group} stands."


def _topic_settings(queue: Queue) -> str:
    """Tell the broker's word on the topic; reading it needs a right that consuming does not."""
    try:
        return admin.in_words(admin.describe(queue.provider, queue.topic))
    except IntegrationError as e:
        return f"Its settings cannot be read: {e.sentence}"
