"""The cron tasks that come with Sluice."""


def register() -> None:
    """Import every built-in cron task, which registers it."""
    from crontasks.builtin import (  # noqa: F401, PLC0415 - importing registers, once Django is up
        bulk_job,
        consumers,
        errors_cleanup,
        history_cleanup,
        lag_monitor,
        relay,
        reprocessing,
        retention_mirror,
    )
