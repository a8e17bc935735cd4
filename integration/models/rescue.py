"""What was copied from a topic before it expired there, untried: ranges of offsets, and records."""

from django.db import models

from integration.models.partition import QueuePartition
from integration.policy.rescue import Range


class Rescues(models.QuerySet["Rescue"]):
    """Ranges of one partition or several."""

    def ranges(self, topic_uuid: str) -> list[Range]:
        """Those of this topic that still stand, as policy.rescue takes them."""
        standing = self.filter(topic_uuid=topic_uuid, from_offset__lt=models.F("to_offset"))
        return list(standing.order_by("from_offset").values_list("from_offset", "to_offset"))


class Rescue(models.Model):
    """One range of offsets of which every record stands in the database, though nobody tried it.

    It is the truth about what can be read there: an offset in it without a row is no record, and
    a row in no range counts for nothing. As the position goes on, `from_offset` follows it, and
    the rows before it are removed, up to `swept_to`. `records` and `bytes` count rows that stand.
    """

    partition = models.ForeignKey(QueuePartition, on_delete=models.CASCADE, related_name="rescues")
    topic_uuid = models.CharField(max_length=36)
    from_offset = models.BigIntegerField()
    to_offset = models.BigIntegerField(help_text="first offset behind the range")
    swept_to = models.BigIntegerField(help_text="no row of it stands before this offset")
    records = models.BigIntegerField()
    bytes = models.BigIntegerField(help_text="of keys, values and headers")
    reason = models.CharField(max_length=60, help_text="what kept the queue from reading them")
    began_at = models.DateTimeField()
    grew_at = models.DateTimeField()

    objects = Rescues.as_manager()

    class Meta:
        ordering = ["partition", "from_offset"]
        constraints = [
            models.UniqueConstraint(
                fields=["partition", "topic_uuid", "to_offset"], name="one_rescue_per_end"
            ),
            models.CheckConstraint(
                condition=models.Q(swept_to__lte=models.F("from_offset"))
                & models.Q(from_offset__lte=models.F("to_offset")),
                name="rescue_is_a_range",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.partition}: {self.from_offset}-{self.to_offset}"


class RescuedRecord(models.Model):
    """One record as it came from the topic. The partition's row names the queue."""

    pk = models.CompositePrimaryKey("partition_id", "topic_uuid", "offset")
    # Written in bulk: the constraint would look at the partition's row for each.
    partition = models.ForeignKey(
        QueuePartition, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    topic_uuid = models.CharField(max_length=36)
    offset = models.BigIntegerField()
    timestamp_ms = models.BigIntegerField(null=True)
    size = models.IntegerField()
    key = models.BinaryField(null=True)
    value = models.BinaryField(null=True)
    headers = models.TextField(blank=True, help_text="[[name, base64 or null], …] in JSON")

    def __str__(self) -> str:
        return f"{self.partition_id}: {self.offset}"
