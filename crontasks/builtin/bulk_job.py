"""Bulk job: asks for a run of a bulk job by schedule; the Spark driver carries it out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from crontasks.bulk.errors import BulkError, bad_job_request
from crontasks.definitions import crontask
from crontasks.errors import BadParametersError
from crontasks.models import CronInstance
from crontasks.outcome import Context, Outcome, RunState
from crontasks.parameters import option, read
from integration.models import BulkRun

MASKED: Final = (
    " Its values are masked: there are masking rules, and “masked” is not false in the job request."
)


@dataclass(frozen=True)
class BulkJobParameters:
    """The job, and the request for it."""

    job: str = option("import", "The bulk job, such as import.")
    job_request: str = option(
        "{}", "What a person would say of it, as JSON. The page of a run shows its own."
    )


@crontask(
    "bulk_job",
    title="Bulk job",
    parameters=BulkJobParameters,
    permissions=("integration.operate",),
)
class BulkJob:
    """Asks for a run of a bulk job, which then waits for the Spark driver.

    With the rule to skip, none is asked for while the run of the time before has not ended.
    """

    def run(self, parameters: BulkJobParameters, context: Context) -> Outcome:
        # The catalogue knows every job, and a worker that schedules none need not.
        from crontasks.bulk.asking import ask_by_schedule  # noqa: PLC0415

        under_way = _under_way(context)
        if under_way is not None:
            return Outcome(text=f"Skipped: {under_way} has not ended.")
        try:
            job_request = job_request_in(parameters.job_request)
            run = ask_by_schedule(
                parameters.job,
                job_request,
                actor=context.actor,
                instance=context.instance_id,
            )
        except BulkError as e:
            return Outcome(text=f"{e.job_code}: {e}", state=RunState.FAILED)
        is_masked = run.job_request.get("masked") and not job_request.get("masked")
        how = MASKED if is_masked else ""
        return Outcome(counts={"asked": 1}, text=f"Asked for {run.job} {run.pk}.{how}")


def scheduled() -> list[tuple[str, Mapping[str, Any]]]:
    """Each schedule's job and job request, on or off, but for those that cannot be read."""
    found = []
    for raw in CronInstance.objects.filter(task="bulk_job").values_list("parameters", flat=True):
        try:
            parameters = read(BulkJobParameters, raw)
            found.append((parameters.job, job_request_in(parameters.job_request)))
        except (BadParametersError, BulkError):
            continue
    return found


def _under_way(context: Context) -> BulkRun | None:
    """The run of the time before, where the rule is to skip a second one."""
    is_skipped = CronInstance.objects.filter(
        pk=context.instance_id, overlap=CronInstance.Overlap.SKIP
    ).exists()
    ours = BulkRun.objects.filter(instance=context.instance_id, state__in=["ASKED", "RUNNING"])
    return ours.first() if is_skipped else None


def job_request_in(text: str) -> Mapping[str, Any]:
    """The job request that a parameter holds. Raises BulkError BAD_PARAMETERS."""
    try:
        job_request = json.loads(text)
    except RecursionError as e:
        raise bad_job_request("job_request is nested too deeply") from e
    except ValueError as e:
        raise bad_job_request(f"job_request is no JSON: {e}") from e
    if not isinstance(job_request, dict):
        raise bad_job_request("job_request is no object of JSON")
    return job_request
