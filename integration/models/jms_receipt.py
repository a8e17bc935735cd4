"""What is known of messages that a JMS broker may send again."""

from django.db import models

from integration.models.queue import Queue


class JmsReceipt(models.Model):
    """A message of a JMS broker that is through here, and maybe not yet there.

    Written with whatever the message caused; removed once the broker has confirmed that it keeps
    the message no longer, or a day later where that answer was lost. `message` is a hash of
    the message's id and body. Those that were written when it was a hash of the id alone are known
    as well.
    """

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, db_index=False)
    message = models.BinaryField()
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "message"], name="one_jms_receipt_per_message")
        ]

    def __str__(self) -> str:
        return bytes(self.message).hex()
