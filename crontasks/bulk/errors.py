"""Why a run of a bulk job cannot be asked for."""

from integration.errors import IntegrationError
from spark_jobs.problems import JobError


def unwritable(problem: OSError) -> "BulkError":
    """The folder of bulk jobs takes nothing from the web."""
    return BulkError(
        JobError(
            "UPLOAD_FAILED",
            f"The file could not be written: {problem.strerror or type(problem).__name__}.",
            "Look whether the folder of bulk jobs has room and may be written by the web.",
        )
    )


class BulkError(IntegrationError):
    """A run cannot be asked for, or looked at before it is; `job_code` says why."""

    code = "BULK_REFUSED"

    def __init__(self, problem: JobError) -> None:
        super().__init__(problem.text, next_step=problem.next_step)
        self.job_code = problem.code


def unknown(what: str, name: str) -> BulkError:
    """What a job request names is not there."""
    code = f"UNKNOWN_{what.rsplit(maxsplit=1)[-1].upper()}"
    return BulkError(
        JobError(code, f"There is no {what} {name!r}.", "Correct the name, or create it first.")
    )


def bad_job_request(why: str) -> BulkError:
    """What a job request says cannot be understood."""
    return BulkError(
        JobError(
            "BAD_PARAMETERS",
            f"The job cannot be run as it is asked for: {why}.",
            "Correct the parameter and ask again.",
        )
    )


def died(times: int) -> JobError:
    """A run that ends its drivers is not given to another one."""
    return JobError(
        "DRIVER_DIED",
        f"The process that drove it died {times} times.",
        "Look into the Spark driver's log, for memory above all; then let it go on.",
    )
