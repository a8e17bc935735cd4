"""Reasons why a run of a bulk job cannot be asked for."""

from integration.errors import IntegrationError
from spark_jobs.errors import JobError


class BulkError(IntegrationError):
    """A run cannot be asked for, or looked at before it is; `job_code` says why."""

    code = "BULK_REFUSED"

    def __init__(self, job_code: str, text: str, next_step: str) -> None:
        super().__init__(text, next_step=next_step)
        self.job_code = job_code

    @classmethod
    def of(cls, problem: JobError) -> "BulkError":
        return cls(problem.code, problem.text, problem.next_step)


def unknown(job_code: str, what: str, name: str) -> BulkError:
    """Refuse a job request that names something that does not exist."""
    next_step = "Correct the name, or create it first."
    return BulkError(job_code, f"There is no {what} {name!r}.", next_step)


def bad_job_request(why: str) -> BulkError:
    """Refuse a job request that cannot be understood."""
    return BulkError(
        "BAD_PARAMETERS",
        f"The job cannot be run as it is asked for: {why}.",
        "Correct the parameter and ask again.",
    )
