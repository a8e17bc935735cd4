"""Operations: one verb for many failures, stored, so that it survives and can be followed."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models

from integration.models.fields import known_states
from integration.models.message_error import MessageError
from integration.policy.operations import FAILING, NEVER, ItemOutcome, StopRule
from integration.policy.states import OperationState


class Operation(models.Model):
    """One verb over a frozen selection of failures, carried out by a worker.

    The selection is its items, fixed when it is made: nothing that fails later joins it.
    `version` is raised by every change a person makes; the runner carries `epoch` like a
    partition's owner, so that two runners never both act.
    """

    class Verb(models.TextChoices):
        """The verb for each message."""

        RELEASE = "release", "Release"
        HOLD = "hold", "Hold"
        DELETE = "delete", "Delete"
        RESTORE = "restore", "Restore"
        EDIT = "edit", "Edit"
        SEND_BACK = "send back", "Send back"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    verb = models.CharField(max_length=10, choices=Verb.choices)
    title = models.CharField(max_length=200, help_text="What it does, as people call it.")
    query = models.TextField(blank=True, help_text="The filter it was chosen by, urlencoded.")
    # Text and not JSON: its numbers are kept as they were written.
    recipe = models.TextField(
        blank=True,
        default="",
        help_text='For an edit: a JSON Patch, [{"op": …, "path": …, "value": …}].',
    )
    trial = models.JSONField(
        null=True, help_text="For an edit: how far the dry run came, and what it found."
    )
    release_after_edit = models.BooleanField(default=False)
    late = models.BooleanField(
        default=False, help_text="Released ones may be applied after newer messages."
    )
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    retry_of = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="retries"
    )

    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in OperationState])
    why_paused = models.TextField(blank=True)
    first_only = models.BooleanField(
        default=False, help_text="It pauses by itself after its first message."
    )
    rate = models.PositiveIntegerField(null=True, help_text="messages a second; empty = no limit")
    stop_after = models.PositiveIntegerField(
        null=True, help_text="It pauses by itself when so many that it released failed again."
    )
    stop_share = models.PositiveSmallIntegerField(
        null=True, help_text="The same for so many percent of those released."
    )
    stop_from = models.DateTimeField(
        null=True, help_text="Since when failures are counted for it: its start, or resumption."
    )
    stop_base = models.PositiveIntegerField(
        null=True, help_text="How many were released before that."
    )
    total = models.PositiveIntegerField(default=0)
    handled = models.PositiveIntegerField(default=0, help_text="How many had their turn.")
    done = models.PositiveIntegerField(default=0, help_text="On how many it was carried out.")
    is_capped = models.BooleanField(
        default=False, help_text="More matched than one operation takes; the oldest are in it."
    )
    queues = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="The queues of its messages: who may not know of one of them sees none of it.",
    )
    systems = ArrayField(
        models.BigIntegerField(),
        null=True,
        help_text="The external systems that whoever let it run is limited to; empty = none.",
    )
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    version = models.IntegerField(default=1)

    owner = models.CharField(max_length=200, blank=True)
    epoch = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="A turn was asked for and has not begun.")
    worked_at = models.DateTimeField(null=True, help_text="When its last chunk was committed.")

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [known_states(OperationState, "operation_state_known")]
        indexes = [
            models.Index(
                fields=["created_at"],
                name="operation_open",
                condition=models.Q(state__in=["RUNNING", "PAUSED"]),
            ),
            models.Index(fields=["-created_at", "id"], name="operation_recent"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def stop_rule(self) -> StopRule:
        return StopRule(self.stop_after, self.stop_share)

    @property
    def has_stop_rule(self) -> bool:
        return self.stop_rule != NEVER

    @property
    def is_tried(self) -> bool:
        """Return whether the dry run of an edit came to its end."""
        return self.trial is not None and self.trial.get("at", 0) >= self.total

    @property
    def stopped_itself(self) -> bool:
        """Return whether it paused because too many of what it released failed again."""
        return self.why_paused == FAILING


class OperationItem(models.Model):
    """One message of an operation and what the operation did to it.

    `version` is the failure's as the person saw it; afterwards `version_after` tells which
    state of the failure is the operation's own doing, so that its later end can be told.
    """

    # Checked by nobody row for row: fifty thousand are frozen while a person waits.
    operation = models.ForeignKey(
        Operation,
        on_delete=models.CASCADE,
        related_name="items",
        db_index=False,
        db_constraint=False,
    )
    place = models.IntegerField(help_text="its turn in the operation, from 0")
    error = models.ForeignKey(
        MessageError, on_delete=models.CASCADE, related_name="operations", db_constraint=False
    )
    version = models.IntegerField()
    version_after = models.IntegerField(null=True)
    outcome = models.CharField(
        max_length=12,
        blank=True,
        choices=[(o.value, o.value) for o in ItemOutcome],
        help_text="empty = its turn has not come yet",
    )
    text = models.TextField(blank=True, help_text="why it was not done")
    at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["operation", "place"]
        constraints = [
            models.UniqueConstraint(fields=["operation", "place"], name="one_item_a_place")
        ]
        # No index holds the outcome: writing it touches the row alone, and a half of each page is
        # kept free for that (migration 0001).

    def __str__(self) -> str:
        return f"{self.operation_id} #{self.place}: {self.outcome or 'waiting'}"
