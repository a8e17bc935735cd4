"""Publish channels: outbound message types, and which partner gets them by which way."""

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models

from integration.endpoints.properties import forwards
from integration.formats import subjects
from integration.models.queue import Queue
from integration.models.search_paths import check_search_paths
from integration.models.structure import ObjectStructure
from integration.models.system import Endpoint, ExternalSystem
from integration.paths import BadPath, compile_path


class PublishChannel(models.Model):
    """An outbound message type: its name is the envelope's INTERFACE.

    One `publish()` writes one outgoing message for each of its enabled targets.
    """

    class Format(models.TextChoices):
        """The format of the payload."""

        JSON = "json", "JSON"
        XML = "xml", "XML"

    class SubjectBy(models.TextChoices):
        """The names of subjects: Confluent's three strategies."""

        NOTHING = "", "no registry: as text"
        TOPIC = subjects.BY_TOPIC, "the topic: <topic>-value"
        RECORD = subjects.BY_RECORD, "the record: its full name"
        TOPIC_RECORD = subjects.BY_BOTH, "both: <topic>-<record>"

    name = models.CharField(max_length=100, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    structure = models.ForeignKey(
        ObjectStructure,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="channels",
        help_text="Its schema and key paths judge what is published; empty = anything goes.",
    )
    format = models.CharField(max_length=4, choices=Format.choices, default=Format.JSON)
    envelope = models.BooleanField(
        default=True, help_text="Wrap the payload; off = the bare payload, its facts in headers."
    )
    subject_by = models.CharField(
        max_length=12,
        choices=SubjectBy.choices,
        blank=True,
        default=SubjectBy.NOTHING,
        db_default="",
        help_text="Write by a schema of the provider's registry; empty = as text.",
    )
    schema_record = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="The record's full name, where the subject is named after it.",
    )
    schema_version = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text="Empty = the latest."
    )
    key_path = models.CharField(
        max_length=250, blank=True, help_text="Where the key is found when publish() names none."
    )
    external_id_path = models.CharField(max_length=250, blank=True)
    search_paths = models.JSONField(default=list, blank=True)
    keeps_payload = models.BooleanField(default=False, help_text="Tracking keeps the payload.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        check_search_paths(self.external_id_path, self.search_paths)
        if self.key_path:
            try:
                compile_path(self.key_path)
            except BadPath as e:
                raise ValidationError({"key_path": str(e)}) from e
        self._check_format()
        self._check_subject()

    def _check_subject(self) -> None:
        """Raises ValidationError, by field, for a subject that cannot be named or written by."""
        if not self.subject_by:
            return
        if self.is_xml:
            raise ValidationError({"format": "What a schema writes is JSON before that."})
        if self.envelope:
            said = "A registry's formats have no envelope: switch it off; headers tell the facts."
            raise ValidationError({"envelope": said})
        if self.subject_by != self.SubjectBy.TOPIC and not self.schema_record:
            said = "Name the record, such as com.example.Order: its subject is named after it."
            raise ValidationError({"schema_record": said})

    def subject_for(self, topic: str) -> str:
        """Return the subject of its messages in a topic; empty where they are text."""
        return subjects.subject_name(self.subject_by, topic, self.schema_record)

    def _check_format(self) -> None:
        """Raises ValidationError, by field, for what could never judge a payload of this format."""
        begins, kind = (
            ("/", "an XPath such as /PO/PONUM")
            if self.is_xml
            else (
                "$",
                "a JSONPath such as $.ponum",
            )
        )
        named = self.Format(self.format).label if self.format in self.Format.values else ""
        if self.key_path and not self.key_path.startswith(begins):
            raise ValidationError({"key_path": f"The channel publishes {named}: write {kind}."})
        structure = self.structure
        if structure is None:
            return
        if self.is_xml and structure.json_schema is not None:
            text = f"{structure} has a JSON Schema, and the channel publishes XML."
            raise ValidationError({"structure": text})
        if not self.key_path and not str(structure.key_paths[0]).startswith(begins):
            text = f"The key paths of {structure} find nothing in {named}."
            raise ValidationError({"structure": text})

    @property
    def is_xml(self) -> bool:
        return self.format == self.Format.XML


class ChannelTarget(models.Model):
    """One partner of a channel: the queue its messages take and the endpoint they end at.

    Without an endpoint of its own the queue's endpoint takes them; a queue without any is read
    by the partner itself, from Kafka.
    """

    channel = models.ForeignKey(PublishChannel, on_delete=models.PROTECT, related_name="targets")
    system = models.ForeignKey(ExternalSystem, on_delete=models.PROTECT, related_name="targets")
    enabled = models.BooleanField(default=True)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="targets")
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="targets"
    )

    class Meta:
        ordering = ["channel__name", "system__name"]
        verbose_name = "target"
        constraints = [
            models.UniqueConstraint(fields=["channel", "system"], name="one_target_per_system")
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.system}"

    def clean(self) -> None:
        if self.queue_id and self.queue.direction != Queue.Direction.OUTBOUND:
            raise ValidationError({"queue": "Messages of a channel need an outbound queue."})
        if self.queue_id and self.queue.provider.is_jms:
            text = (
                f"{self.queue} reads from a JMS broker, and channels write to Kafka: choose a "
                "queue there. To send to a JMS broker, give that queue an endpoint of this type."
            )
            raise ValidationError({"queue": text})
        if self.queue_id and self.queue.system_id not in {None, self.system_id}:
            raise ValidationError({"queue": "This queue belongs to another external system."})
        if self.endpoint_id and self.endpoint and self.endpoint.system_id != self.system_id:
            raise ValidationError({"endpoint": "This endpoint belongs to another external system."})
        if self.queue_id:
            self._check_way()

    def _check_way(self) -> None:
        """Raises ValidationError where a message could end at another partner's endpoint."""
        if self.endpoint is not None and forwards(self.endpoint.endpoint_type):
            text = (
                "It is another topic: only a queue forwards. Name that topic's own queue instead."
            )
            raise ValidationError({"endpoint": text})
        if self.endpoint is not None and self.queue.forwards:
            text = f"{self.queue} forwards all its messages: leave it out, or choose another queue."
            raise ValidationError({"endpoint": text})
        last = self.endpoint or self.queue.endpoint
        if last is not None and last.system_id != self.system_id:
            text = f"{self.queue} delivers to {last}, which belongs to another external system."
            raise ValidationError({"queue": text})
        beside = ChannelTarget.objects.filter(channel=self.channel_id, queue=self.queue_id)
        beside = beside.exclude(pk=self.pk)
        if beside.exists() if last else beside.exclude(endpoint=None).exists():
            text = (
                "Another target of this channel takes this queue, and what is delivered from it "
                "is told apart by channel only: choose another queue."
            )
            raise ValidationError({"queue": text})
