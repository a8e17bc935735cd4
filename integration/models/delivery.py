"""Calls of endpoints as far as they are known, and the state of the endpoint itself."""

from django.db import models

from integration.models.fields import known_states
from integration.models.queue import Queue
from integration.models.system import Endpoint
from integration.policy.states import CircuitState, DeliveryState


class Delivery(models.Model):
    """One try to deliver one message. Committed as SENDING before the call is made.

    Written by the owner of the partition only, under its epoch. A row that is SENDING under an
    older epoch tells of a call that may have happened.
    """

    queue = models.ForeignKey(
        Queue, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    topic_uuid = models.CharField(max_length=36)
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    error = models.UUIDField(null=True, help_text="the failure, when it is tried from there")
    message_id = models.TextField()
    interface = models.TextField(blank=True)
    attempt = models.IntegerField(default=1)
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in DeliveryState])
    epoch = models.BigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    took_ms = models.IntegerField(null=True)
    status = models.IntegerField(null=True, help_text="the answer's HTTP status, where it has one")
    code = models.CharField(max_length=60, blank=True)
    text = models.TextField(blank=True)
    excerpt = models.TextField(blank=True, help_text="the beginning of the answer, bounded")

    class Meta:
        ordering = ["-id"]
        constraints = [known_states(DeliveryState, "delivery_state_known")]
        indexes = [
            models.Index(fields=["queue", "partition", "offset"], name="delivery_by_place"),
            models.Index(fields=["endpoint", "-ended_at"], name="delivery_by_endpoint"),
            models.Index(fields=["message_id"], name="delivery_by_message"),
            models.Index(
                fields=["queue", "partition", "offset"],
                name="delivery_not_known",
                condition=models.Q(state__in=["SENDING", "UNKNOWN"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message_id}: {self.state}"


class EndpointCircuit(models.Model):
    """The state of calls to an endpoint: one row, shared by all queues that deliver to it.

    `resume_at` and `next_slot_at` are written and compared by the database's clock only.
    """

    endpoint = models.OneToOneField(
        Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="circuit"
    )
    state = models.CharField(
        max_length=10,
        choices=[(s.value, s.value) for s in CircuitState],
        default=CircuitState.CLOSED.value,
    )
    version = models.BigIntegerField(default=0)
    failures = models.IntegerField(default=0, help_text="in a row, without a success between")
    probes = models.IntegerField(default=0, help_text="made since it opened")
    opened_at = models.DateTimeField(null=True)
    resume_at = models.DateTimeField(null=True)
    code = models.CharField(max_length=60, blank=True)
    text = models.TextField(blank=True)
    changed_at = models.DateTimeField(null=True)
    next_slot_at = models.DateTimeField(null=True, help_text="for the limit per second")

    def __str__(self) -> str:
        return f"{self.endpoint_id}: {self.state}"


class EndpointTest(models.Model):
    """The result of a person's Test of an endpoint. Never changed later."""

    class Kind(models.TextChoices):
        """The extent of the test."""

        CONNECT = "connect", "Connect only"
        SAMPLE = "sample", "Send a sample"

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="tests")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    is_good = models.BooleanField()
    took_ms = models.IntegerField(null=True)
    status = models.IntegerField(null=True)
    code = models.CharField(max_length=60, blank=True)
    text = models.TextField(blank=True)
    excerpt = models.TextField(blank=True)

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"
