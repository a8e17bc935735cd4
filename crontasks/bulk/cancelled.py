"""What stays done of a run that is cancelled: its page and the commands say the same of it."""

from typing import Final

from integration.models import BulkRun
from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.replay.parameters import Into, ReplayParameters

NOTHING: Final = "Nothing of it counts."
SENT: Final = (
    "Messages that it had sent by then stay sent; its log counts them. Run again, it sends the "
    "others; a new request would send all of them."
)
# Of jobs that do a part after another; those that send are told by their targets.
_IN_PARTS: Final = {
    ArchiveParameters.JOB: "What had been archived and removed here by then stays so.",
    RepairParameters.JOB: "What had been edited by then stays so, on hold.",
}


def what_stays(run: BulkRun) -> str:
    """One sentence or two, for a run that is cancelled or about to be."""
    if not run.epoch:
        return NOTHING  # No driver ever took it.
    return SENT if _sends(run) else _IN_PARTS.get(run.job, NOTHING)


def _sends(run: BulkRun) -> bool:
    if run.job == ReplayParameters.JOB:
        return bool(run.parameters.get("into") == Into.TOPIC)
    return bool(run.parameters.get("target"))
