"""A driver is killed at every step of every job: the next one ends each run with the exact rows.

To start a driver costs more than all it does in tests, so one is killed with the runs of several
jobs; each job's steps are in `tests/support/killed_<job>s.py`.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.bulk import shared_session
from tests.support.kafka_world import Kafka
from tests.support.killed_archives import are_dropped, killed_archives
from tests.support.killed_exports import killed_exports
from tests.support.killed_imports import killed_imports
from tests.support.killed_repairs import all_have_one_operation, killed_repairs
from tests.support.killed_replays import killed_replays
from tests.support.run_driver import Killed, killed_at_their_steps, taken_over

pytestmark = [
    pytest.mark.crash,
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
]
# Those that wait at their steps, and three that work.
TASKS: Final = 12


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the drivers that go on; those that are killed have JVMs of their own."""
    return shared_session()


def hold_when_taken_over(subtests: pytest.Subtests, *jobs: Killed) -> None:
    for job in jobs:
        for step, run in job.runs.items():
            with subtests.test(f"{run.job} {step.__name__}"):
                job.holds(step, taken_over(run))


def test_imports_repairs_and_replays_do_everything_once(
    servers: Any, child_environment: dict[str, str], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    imports, repairs = killed_imports(tmp_path / "assets"), killed_repairs()
    # Behind those whose queues have no cluster: all queues of a test have one provider.
    replays = killed_replays(Kafka(servers.kafka_bootstrap))
    # The last step of all takes what is left of the tasks.
    runs = {**replays.runs, **repairs.runs, **imports.runs}
    killed_at_their_steps(runs, child_environment, tmp_path, tasks=TASKS)

    hold_when_taken_over(subtests, imports, repairs, replays)
    all_have_one_operation(repairs)


def test_exports_and_archives_lose_no_row_and_double_none(
    servers: Any,
    child_environment: dict[str, str],
    tmp_path: Path,
    settings: Any,
    subtests: pytest.Subtests,
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    archives, exports = killed_archives(), killed_exports()
    # The last export waits in the only task, so that the last archive stays where it is.
    first, last = archives.runs.items()
    runs = dict([first, *exports.runs.items(), last])
    killed_at_their_steps(runs, child_environment, tmp_path, tasks=1)

    hold_when_taken_over(subtests, archives, exports)
    are_dropped()
