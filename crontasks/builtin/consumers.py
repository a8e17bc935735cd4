"""The consumers: their tick asks for a start of their queue, which the workers then serve."""

from crontasks.definitions import NoParameters, crontask
from crontasks.outcome import NOTHING, Context, Outcome
from crontasks.running import starts


@crontask("queue_consumer", title="Queue consumer", asks_only=True)
class QueueConsumer:
    """Consumes a queue: inbound by handlers, outbound by calling endpoints.

    Between ticks the dispatcher starts what becomes due.
    """

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        if context.queue_id is not None:
            starts.ask(context.queue_id)
        return NOTHING


@crontask("error_queue_consumer", title="Error-queue consumer", asks_only=True)
class ErrorQueueConsumer(QueueConsumer):
    """Consumes an error queue: links copies to their failures, holds foreign records."""
