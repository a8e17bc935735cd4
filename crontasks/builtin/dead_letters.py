"""Dead-letter resend: finds dead-letter topics by a pattern and sends back what is in them."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Final, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils.text import slugify

from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome, RunState
from crontasks.parameters import option
from integration import registration
from integration.actions import dead_letters, queue_setup
from integration.actions.configuration import Author
from integration.actions.errors import ReturnRefusedError
from integration.actions.queue_setup import Making
from integration.codec import decode_headers
from integration.delivery.foreign import DEAD_LETTER, FOREIGN
from integration.documents.patterns import check_pattern, whole
from integration.envelope.retry_wrapper import resends
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.kafka.errors import ProviderError
from integration.models import ExternalSystem, MessageError, Provider, Queue
from integration.policy.moves import FAILED_AGAIN
from integration.policy.retry import Backoff, RetryPolicy, pause
from integration.policy.states import ErrorState
from integration.store import returned
from integration.store.sessions import fetch_all

Row = TypeVar("Row", Provider, ExternalSystem)
ANYTHING: Final = ".*"
NAME_LENGTH: Final = 60
# Payloads are read with them, so few at a time; and so many in a run, however many are in a pause.
PAGE_ROWS: Final = 500
MOST_LOOKED_AT: Final = 100_000
WAITING: Final = "WAITING"
# Topics that cannot be registered are tried anew in each run; so many for each queue it may make.
TRIES_PER_QUEUE: Final = 10
NOW: Final = "SELECT clock_timestamp()"


class NoSuchRowError(IntegrationError):
    """A parameter of the task names a provider or a system that there is not."""

    code = "UNKNOWN_NAME"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"There is no {kind} called {name!r}.",
            next_step="Correct the parameter of the dead-letter resend, or set it up first.",
        )


@dataclass(frozen=True)
class ResendParameters:
    """Which topics, and how often and after which pauses their messages go back."""

    provider: str = option("", "Name of the provider whose topics are looked at; empty: all.")
    pattern: str = option(
        "(.+)-dlq",
        "Regular expression for the whole name of a dead-letter topic. Its first group is the "
        "topic that a message goes back to if its headers name none.",
    )
    system: str = option("", "External system of the error queues that are made; empty: none.")
    delay_seconds: float = option(
        60.0, "Pause before a message goes back, in seconds.", least=0, most=2_592_000
    )
    factor: float = option(
        1.0, "Each further pause is this many times as long; 1: all are equal.", least=1, most=100
    )
    most_resends: int = option(
        5, "Sent back so often, a message is left to people.", least=0, most=1_000
    )
    most_queues: int = option(20, "New error queues in one run, at most.", least=0, most=1_000)
    at_most: int = option(
        1_000,
        "Messages of a provider sent back or left to people in one run.",
        least=1,
        most=100_000,
    )


@crontask("dead_letters", title="Dead-letter resend", parameters=ResendParameters)
class DeadLetterResend:
    """Registers each topic of a provider that fits the pattern as an error queue, as topics appear.

    What other applications put there becomes failures on hold; after a pause each is sent back to
    the topic it came from, a limited number of times, and is then left to people. A message is
    never sent to a topic that fits the pattern itself.
    """

    def run(self, parameters: ResendParameters, context: Context) -> Outcome:
        # At once: where no topic can be looked at, nothing else would find it.
        check_pattern(group_pattern(parameters.pattern))
        counts: Counter[str] = Counter()
        away = 0
        for provider in _providers(parameters):
            try:
                counts["queues"] += _register_all(provider, parameters, context)
            except ProviderError as e:
                # What is there already can be sent back all the same: the outbox takes it.
                context.say(f"{provider.name}: {e.code}: {e.sentence}")
                away += 1
            _resend(provider, parameters, context, counts)
        del counts[WAITING]
        return Outcome(counts=+counts, state=RunState.FAILED if away else RunState.DONE)


def group_pattern(pattern: str) -> str:
    """Return the pattern with its leading `.*` as the group that names the origin.

    >>> group_pattern(".*-dlq")
    '(.*)-dlq'
    """
    if "(" not in pattern and pattern.startswith(ANYTHING):
        return f"({ANYTHING}){pattern[len(ANYTHING) :]}"
    return pattern


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter on hold, how often it went back before, and how long it has been here."""

    row: MessageError
    sent: int
    age: timedelta

    def handle(self, parameters: ResendParameters, context: Context) -> str:
        """Send it back, leave it to people, or let it wait; returns which, for the counts."""
        row, pattern = self.row, group_pattern(parameters.pattern)
        origin = row.origin_topic or whole(pattern, row.queue.topic) or ""
        if origin and whole(pattern, origin) is not None:
            why = f"It came from {origin}, which is a dead-letter topic itself: it would go round."
            return self._give_up("RESEND_LOOP", why, context)
        if self.sent >= parameters.most_resends:
            why = f"It was sent back {self.sent} times and {FAILED_AGAIN}"
            return self._give_up("RESENDS_SPENT", why, context, quoted=row.text)
        if self.age < _pause(parameters, self.sent):
            return WAITING
        return self._send(origin, context)

    def _send(self, origin: str, context: Context) -> str:
        try:
            dead_letters.send_back(
                self.row.pk,
                version=self.row.version,
                actor=context.actor,
                reason="dead-letter resend",
                origin=origin,
                sent_before=self.sent,
            )
        except ReturnRefusedError as e:
            return self._give_up(e.code, e.sentence, context)
        except IntegrationError as e:
            context.say(f"{self.row.pk}: {e.code}: {e.sentence}")
            return e.code
        return "RETURNED"

    def _give_up(self, code: str, why: str, context: Context, quoted: str = "") -> str:
        """Leave it to people; `quoted` is what a failure says, which is in no decision."""
        try:
            dead_letters.give_up(
                self.row.pk,
                version=self.row.version,
                actor=context.actor,
                code=code,
                text=f"{why} {quoted}".strip(),
                reason=why,
            )
        except IntegrationError as e:
            context.say(f"{self.row.pk}: {e.code}: {e.sentence}")
            return e.code
        return code


def _providers(parameters: ResendParameters) -> list[Provider]:
    """The provider that is meant, or all that have topics. Raises NoSuchRowError."""
    if parameters.provider:
        return [_named(Provider, "provider", parameters.provider)]
    return list(Provider.objects.filter(kind=Provider.Kind.KAFKA).order_by("name"))


def _pause(parameters: ResendParameters, sent: int) -> timedelta:
    policy = RetryPolicy(
        backoff=Backoff.EXPONENTIAL,
        first=timedelta(seconds=parameters.delay_seconds),
        factor=parameters.factor,
        cap=timedelta(days=30),
    )
    return pause(policy, sent + 1, 0.0)


def _resend(
    provider: Provider, parameters: ResendParameters, context: Context, counts: Counter[str]
) -> None:
    """Handle the provider's letters; one that is still in its pause takes no other's place."""
    left = parameters.at_most
    for letter in islice(_letters(provider, parameters), MOST_LOOKED_AT):
        if left == 0 or context.should_stop():
            return
        what = letter.handle(parameters, context)
        counts[what] += 1
        left -= what != WAITING


def _letters(provider: Provider, parameters: ResendParameters) -> Iterator[Letter]:
    """Those on the error queues of topics that fit, the oldest failure first."""
    pattern = group_pattern(parameters.pattern)
    queues = Queue.objects.filter(provider=provider, is_error_queue=True, enabled=True)
    fitting = [queue.pk for queue in queues if whole(pattern, queue.topic) is not None]
    held = MessageError.objects.select_related("queue__system").filter(
        queue__in=fitting, state=ErrorState.HOLD, code__in=(DEAD_LETTER, FOREIGN.code)
    )
    [(now,)] = fetch_all(NOW, [])
    page = held.order_by("last_failed_at", "id")
    while rows := list(page[:PAGE_ROWS]):
        before = returned.counts([row.pk for row in rows])
        for row in rows:
            told = resends(row.current_payload, decode_headers(row.headers))
            yield Letter(row, max(told, before.get(row.pk, 0)), now - row.last_failed_at)
        at, id_ = rows[-1].last_failed_at, rows[-1].pk
        beyond = Q(last_failed_at__gt=at) | Q(last_failed_at=at, id__gt=id_)
        page = held.filter(beyond).order_by("last_failed_at", "id")


def _register_all(provider: Provider, parameters: ResendParameters, context: Context) -> int:
    """Make an error queue of each topic that fits and no queue has, up to `most_queues`.

    Those that cannot be registered take no other's place. Raises ProviderError.
    """
    pattern = group_pattern(parameters.pattern)
    taken = set(Queue.objects.filter(provider=provider).values_list("topic", flat=True))
    found = [
        topic
        for topic in admin.topics(provider)
        if topic not in taken
        and whole(pattern, topic) is not None
        and not registration.topic_name_mistakes(topic)
    ]
    system = None
    if parameters.system:
        system = _named(ExternalSystem, "external system", parameters.system)
    made = tried = 0
    for topic in _some(found, parameters.most_queues * TRIES_PER_QUEUE):
        if made == parameters.most_queues or context.should_stop():
            break
        tried += 1
        made += _register(_error_queue(provider, topic, system), context)
    if len(found) > tried:
        context.say(f"{len(found)} topics fit the pattern; the others follow with the next runs.")
    return made


def _some(topics: Sequence[str], most: int) -> Sequence[str]:
    """All of them; of more than `most` others in each run, so that each has its turn."""
    return topics if len(topics) <= most else sorted(random.sample(topics, most))


def _register(queue: Queue, context: Context) -> bool:
    try:
        queue_setup.judge(queue, Making())
        why = "The topic fits the pattern of the dead-letter resend."
        queue_setup.store(queue, Author(context.actor, why), Making())
    except ValidationError as mistakes:
        context.say(f"{queue.topic}: {' '.join(mistakes.messages)}")
        return False
    except IntegrationError as e:
        context.say(f"{queue.topic}: {e.code}: {e.sentence}")
        return False
    context.say(f"{queue.topic}: read from its beginning, by the error queue {queue.name}.")
    return True


def _error_queue(provider: Provider, topic: str, system: ExternalSystem | None) -> Queue:
    return Queue(
        name=_free_name(topic),
        description="Dead letters; found by the dead-letter resend",
        provider=provider,
        topic=topic,
        direction=Queue.Direction.INBOUND,
        kind=Queue.Kind.SEQUENTIAL,
        system=system,
        start_from=Queue.StartFrom.BEGINNING,
        is_error_queue=True,
    )


def _free_name(topic: str) -> str:
    """A queue's name for the topic: other characters become hyphens, a taken one gets a number."""
    begun = slugify(topic.replace(".", "-"))[:NAME_LENGTH] or "dead-letters"
    name, number = begun, 2
    while Queue.objects.filter(name=name).exists():
        ending = f"-{number}"
        name, number = begun[: NAME_LENGTH - len(ending)] + ending, number + 1
    return name


def _named(model: type[Row], kind: str, name: str) -> Row:
    row = model._default_manager.filter(name=name).first()
    if row is None:
        raise NoSuchRowError(kind, name)
    return row
