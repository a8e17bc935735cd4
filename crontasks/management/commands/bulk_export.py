"""`manage.py bulk_export`: documents or tracked messages into files, or into a queue."""

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One export; see docs/bulk-export.md."""

    job = "export"
    positional = ("what",)
    lines = {"columns": "column"}
    help = (
        "Exports documents of an object structure, or tracked messages, into files below "
        "SLUICE_BULK_ROOT/exports (JSON lines, CSV or Parquet, with a manifest), or into a queue."
    )
