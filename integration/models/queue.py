"""A queue: a topic of Kafka, or a JMS queue or topic, with a direction and rules for failures."""

from collections.abc import Collection

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.endpoints.properties import forwards
from integration.models import order_paths, two_phase
from integration.models.fields import SECONDS, one_queue_per_source
from integration.models.forwards import circle_through, forwarding, leads_on
from integration.models.provider import Provider
from integration.models.retrying import ONE_CALL, Retrying
from integration.models.system import Endpoint, EnterpriseService, ExternalSystem
from integration.policy import branches, groups, jms
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.rescue import ENDLESS_SECONDS


class Queue(Retrying):
    """People's settings for one topic. What the engine found is on its partitions."""

    class Direction(models.TextChoices):
        """The way its messages go."""

        INBOUND = "inbound", "Inbound"
        OUTBOUND = "outbound", "Outbound"

    class Kind(models.TextChoices):
        """The effect of a failure on the messages behind it."""

        SEQUENTIAL = "sequential", "Sequential: stop at the first failure"
        CONTINUOUS = "continuous", "Continuous: continue and retry later"

    class Carrier(models.TextChoices):
        """The carrier that reminds the engine of a due retry."""

        TOPIC = "topic", "A retry marker at the end of the topic"
        ROW = "row", "The row of the error table alone"

    class OnHeadExpired(models.TextChoices):
        """The reaction of a sequential queue when Kafka has lost the message it waits for."""

        ADVANCE = "advance", "Continue; the saved failure stays open"
        STAY_BLOCKED = "stay_blocked", "Stay blocked"

    class OnGap(models.TextChoices):
        """The reaction to messages that expired before they were read."""

        BLOCK = "block", "Wait for a person's acknowledgement"
        ADVANCE = "advance", "Record the gap, notify, continue"

    class Ordering(models.TextChoices):
        """The order that a continuous queue keeps when one of its messages fails."""

        NONE = "none", "Nothing: each message for itself"
        KEY = "key", "Messages of one key"

    class GroupProtocol(models.TextChoices):
        """The protocol by which runs join a consumer group, for clusters that demand it."""

        NONE = "none", "None: its runs divide the partitions among themselves"
        CLASSIC = "classic", "Classic, with cooperative rebalancing"
        CONSUMER = "consumer", "Consumer (KIP-848), for brokers from 4.0 on"

    class StartFrom(models.TextChoices):
        """The place where reading begins, chosen once."""

        BEGINNING = "beginning", "The oldest message the topic still has"
        END = "end", "Only messages written from now on"
        TIME = "time", "Messages written since a time"
        GROUP = "group", "Where a named consumer group stands"

    # identity
    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="queues")
    topic = models.CharField(max_length=249)
    subscription = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="JMS topic: the durable subscription to read it by; empty = a JMS queue.",
    )
    selector = models.CharField(
        max_length=1_000,
        blank=True,
        default="",
        db_default="",
        help_text="JMS: only messages that meet this selector are read; empty = all.",
    )
    direction = models.CharField(
        max_length=10, choices=Direction.choices, default=Direction.INBOUND
    )
    kind = models.CharField(max_length=12, choices=Kind.choices)
    system = models.ForeignKey(
        ExternalSystem, on_delete=models.PROTECT, null=True, blank=True, related_name="queues"
    )
    default_service = models.ForeignKey(
        EnterpriseService,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="default_of",
        help_text="Takes messages that name no service themselves.",
    )
    endpoint = models.ForeignKey(
        Endpoint,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="queues",
        help_text="Outbound: where its messages are delivered; empty = partners read the topic.",
    )
    start_from = models.CharField(max_length=10, choices=StartFrom.choices)
    start_time = models.DateTimeField(null=True, blank=True)
    start_group = models.CharField(max_length=255, blank=True)

    # what people want
    enabled = models.BooleanField(default=True)
    paused = models.BooleanField(default=False)
    pause_reason = models.CharField(max_length=200, blank=True)
    paused_until = models.DateTimeField(
        null=True, blank=True, help_text="Goes on by itself then; empty = until a person resumes."
    )

    # failures
    error_queue = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="feeding_queues"
    )
    is_error_queue = models.BooleanField(
        default=False, help_text="Its records are failures of other queues, kept for people."
    )
    strict_order = models.BooleanField(
        default=False, help_text="Error queue only: one held message stops the ones behind it."
    )
    carrier = models.CharField(max_length=10, choices=Carrier.choices, default=Carrier.TOPIC)
    on_head_expired = models.CharField(
        max_length=15, choices=OnHeadExpired.choices, default=OnHeadExpired.ADVANCE
    )
    on_gap = models.CharField(max_length=10, choices=OnGap.choices, default=OnGap.BLOCK)
    max_open_errors = models.PositiveIntegerField(default=10_000)
    failure_threshold = models.PositiveIntegerField(default=100, help_text="0 = never")
    max_parked = models.PositiveIntegerField(
        default=1_000,
        db_default=1_000,
        validators=[MinValueValidator(1)],
        help_text="Of one key, where keys keep their order.",
    )
    crash_limit = models.PositiveIntegerField(default=3, validators=[MinValueValidator(1)])
    dedupe = models.BooleanField(
        default=False, help_text="Drop a message whose id and content were seen before."
    )
    retry_wrapper = models.BooleanField(
        default=False,
        db_default=False,
        help_text='Its messages are wrapped: {"retryCount": 0, "message": …}.',
    )
    two_phase = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Commit what handlers publish together with their effects, without the outbox.",
    )
    second_database = models.CharField(
        max_length=branches.LONGEST_ALIAS, blank=True, default="", db_default=""
    )
    retention_seconds = models.PositiveBigIntegerField(  # of closed failures; as the topic's
        default=604_800, validators=[MaxValueValidator(ENDLESS_SECONDS)]
    )
    rescue = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Copy what waits into the database before the topic forgets it.",
    )
    rescue_limit_mb = models.PositiveIntegerField(
        default=1_024,
        db_default=1_024,
        validators=[MinValueValidator(1), MaxValueValidator(1_048_576)],
        help_text="So much of it at once, in MiB; the rest expires.",
    )

    # pace
    ordering = models.CharField(
        max_length=4, choices=Ordering.choices, default=Ordering.NONE, help_text="Continuous only."
    )
    order_path = models.CharField(
        max_length=250,
        blank=True,
        default="",
        db_default="",
        help_text="Where the key whose order is kept stands in the document; empty = the record's.",
    )
    concurrency = models.PositiveIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(64)],
        help_text="Continuous: how many messages of different keys are in work at once.",
    )
    workers = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(64)],
        help_text="Inbound continuous: how many runs share its partitions; empty = one for each.",
    )
    group_protocol = models.CharField(
        max_length=10,
        choices=GroupProtocol.choices,
        default=GroupProtocol.NONE,
        db_default=GroupProtocol.NONE.value,
        help_text="Inbound: how its runs join a consumer group, where the cluster demands one.",
    )
    group_id = models.CharField(
        max_length=249,
        blank=True,
        default="",
        db_default="",
        help_text="The group that its runs join; empty = the deployment, a hyphen, the queue.",
    )
    batch_size = models.PositiveIntegerField(
        default=500, validators=[MinValueValidator(1), MaxValueValidator(10_000)]
    )
    stay_seconds = models.FloatField(default=60, validators=SECONDS)
    handler_timeout_seconds = models.FloatField(default=60, validators=ONE_CALL)
    tracks = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Write down what becomes of each message, so that people can search.",
    )

    # what others find out
    topic_keeps_seconds = models.BigIntegerField(
        null=True, editable=False, help_text="The topic's retention; -1 = for ever."
    )
    topic_max_bytes = models.IntegerField(
        null=True, editable=False, help_text="The largest record the topic takes."
    )

    # the dispatcher's own columns, and the rescue's
    rescue_wanted_at = models.DateTimeField(null=True, editable=False)
    start_requested_at = models.DateTimeField(null=True, blank=True, editable=False)
    help_wanted_at = models.DateTimeField(null=True, editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [one_queue_per_source()]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raises ValidationError; what was stored before these rules hinders no other change."""
        stored = Queue.objects.filter(pk=self.pk).first()
        self._check_order_path(stored)
        self._check_workers()
        self._check_concurrency(stored)
        self._check_group()
        if hasattr(self, "provider"):
            self._check_source()
        ends = ("direction", "system_id", "endpoint_id")
        if stored is None or any(getattr(self, f) != getattr(stored, f) for f in ends):
            self._check_end()
            if stored is not None:
                self._check_targets()
        leads = leads_on(self) and self.provider_id is not None
        if leads and (why := circle_through([self], forwarding(Queue.objects.exclude(pk=self.pk)))):
            raise ValidationError({"endpoint": why})

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Judge a form without what only JMS has as well: there it is empty."""
        empty = {name for name in jms.ONLY if not getattr(self, name)}
        super().validate_constraints(set(exclude or ()) - empty)

    @property
    def forwards(self) -> bool:
        """Return whether its messages are written to another topic, in their own transaction."""
        is_outbound = self.direction == self.Direction.OUTBOUND
        return self.endpoint is not None and is_outbound and forwards(self.endpoint.endpoint_type)

    @property
    def keeps_keys_in_order(self) -> bool:
        """Return whether later messages of a key wait while an earlier one is open."""
        by_key = self.ordering == self.Ordering.KEY
        return by_key and self.kind == self.Kind.CONTINUOUS and not self.is_error_queue

    @property
    def needs_one_partition(self) -> bool:
        """Return whether more would lose the order: messages of a key could lie in several."""
        return self.keeps_order or (self.keeps_keys_in_order and bool(self.order_path))

    def _check_order_path(self, stored: "Queue | None") -> None:
        """Raises ValidationError for a path that is none, where nothing reads it, or too late."""
        is_late = stored is not None and order_paths.is_late(self, stored)
        is_used = self.keeps_keys_in_order and self.direction == self.Direction.INBOUND
        if wrong := order_paths.mistake(self.order_path, is_used=is_used, is_late=is_late):
            raise ValidationError({"order_path": wrong})

    def _check_workers(self) -> None:
        """Raises ValidationError where more than one would be promised and never come."""
        if (self.workers or 1) > 1 and not self.is_shared:
            text = "Only a continuous inbound queue is shared by several: leave it out."
            raise ValidationError({"workers": text})

    def _check_concurrency(self, stored: "Queue | None") -> None:
        """Raises ValidationError where messages have to be worked one after the other."""
        is_new = stored is None or any(
            getattr(self, f) != getattr(stored, f) for f in ("concurrency", "kind", "direction")
        )
        is_read = self.direction == self.Direction.INBOUND
        if is_new and is_read and self.concurrency > 1 and not self.is_shared:
            text = "Only a continuous queue works messages side by side: leave it at 1."
            raise ValidationError({"concurrency": text})

    def _check_group(self) -> None:
        """Raises ValidationError for a group that nobody would join, or that is another's."""
        is_read = self.direction == self.Direction.INBOUND
        wrong = groups.mistake(self.group_id, is_read=is_read, has_protocol=self.has_protocol)
        if wrong is None and self.group_id:
            others = Queue.objects.filter(provider=self.provider_id).exclude(pk=self.pk)
            names = [queue.name for queue in others if not queue.has_protocol]
            wrong = groups.taken(self.group_id, settings.SLUICE_DEPLOYMENT, names)
        if wrong is not None:
            raise ValidationError(dict([wrong]))

    def _check_source(self) -> None:
        """Raises ValidationError for what the source of the queue cannot do."""
        is_read = self.direction == self.Direction.INBOUND
        wants = {
            "endpoint": not is_read and not self.forwards,
            "is_error_queue": self.is_error_queue,
            "group_protocol": self.has_protocol,
            "concurrency": self.concurrency > 1,
            "workers": (self.workers or 1) > 1,
            "subscription": bool(self.subscription),
            "selector": bool(self.selector),
        }
        if wrong := jms.mistakes(wants, is_jms=self.provider.is_jms):
            raise ValidationError(wrong)
        if wrong := two_phase.mistakes(self, is_read=is_read, is_jms=self.provider.is_jms):
            raise ValidationError(wrong)

    def _check_end(self) -> None:
        """Raises ValidationError where a message could end at another partner's endpoint."""
        if self.endpoint is not None and self.direction != self.Direction.OUTBOUND:
            text = "Only an outbound queue delivers to an endpoint: leave it out."
            raise ValidationError({"endpoint": text})
        if self.endpoint is not None and self.system_id not in {None, self.endpoint.system_id}:
            text = f"{self.endpoint} belongs to another external system than the queue."
            raise ValidationError({"endpoint": text})
        if self.forwards and self.pk and self.targets.filter(endpoint__isnull=False).exists():
            text = "Targets of channels name endpoints of their own here: they would get nothing."
            raise ValidationError({"endpoint": text})

    def _check_targets(self) -> None:
        """Raises ValidationError where a channel's target would not have been stored like this."""
        for target in self.targets.select_related("channel", "system", "endpoint"):
            target.queue = self
            try:
                target.clean()
            except ValidationError as problem:
                text = f"The target {target} does not fit: {' '.join(problem.messages)}"
                raise ValidationError({"endpoint": text}) from problem

    @property
    def joins_group(self) -> bool:
        """Return whether its runs are members of a consumer group (group mode)."""
        return self.has_protocol and self.direction == self.Direction.INBOUND

    @property
    def has_protocol(self) -> bool:
        return self.group_protocol != self.GroupProtocol.NONE

    @property
    def is_sequential(self) -> bool:
        return self.kind == self.Kind.SEQUENTIAL

    @property
    def is_shared(self) -> bool:
        """Return whether several runs may share its partitions: neither order nor limits forbid."""
        is_read = self.direction == self.Direction.INBOUND and not self.is_error_queue
        return is_read and not self.is_sequential

    @property
    def most_workers(self) -> int | None:
        """Return how many runs may share its partitions; None: one for each partition."""
        return self.workers if self.is_shared else 1

    @property
    def keeps_order(self) -> bool:
        """Return whether a held message stops those behind it: passing it makes it late."""
        return self.is_sequential and (self.strict_order or not self.is_error_queue)

    def failure_thresholds(self) -> FailureThresholds:
        return FailureThresholds(
            max_open_errors=self.max_open_errors,
            failure_threshold=self.failure_threshold,
            max_parked=self.max_parked,
        )
