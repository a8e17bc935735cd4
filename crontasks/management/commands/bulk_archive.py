"""`manage.py bulk_archive`: what is long over into Parquet by the day, in a Spark of its own."""

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One archive; see docs/bulk-archive.md."""

    job = "archive"
    positional = ("kind",)
    help = (
        "Archives messages, closed failures or runs of cron tasks below SLUICE_BULK_ROOT/archive, "
        "as Parquet by the day. Only what was read back and verified is removed here."
    )
