"""`manage.py bulk_replay`: messages of a topic are handed out again, in a Spark of its own."""

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One replay; see docs/bulk-topics.md."""

    job = "replay"
    positional = ("queue", "into")
    help = (
        "Hands out messages of a topic once more: back to their queue under the numbers they have, "
        "to another topic, or into an empty structure to rebuild its state. Positions stay."
    )
