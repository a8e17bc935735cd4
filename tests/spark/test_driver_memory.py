"""A Spark driver on a machine without memory for it: each run hears why, and it lives on."""

from pathlib import Path
from typing import Any

import pytest

from crontasks.bulk.deciding import again
from tests.support.bulk import an_asset_structure, an_import, driven, shared_session
from tests.support.exports import a_plain_queue
from tests.support.spark_driver import a_spark_driver, all_of_it_is_there, ended, some_files

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]


def test_too_little_memory_is_told_to_each_run_and_the_driver_lives(
    servers: Any, child_environment: dict[str, str], tmp_path: Path
) -> None:
    an_asset_structure()
    short = a_spark_driver("short", child_environment, tmp_path, memory_mb=90_000_000)
    run = an_import(some_files(tmp_path / "assets"), a_plain_queue("rejects"), send=True)
    try:
        refused = ended(run, short)
        assert (refused.state, refused.problem[0]) == ("FAILED", "SPARK_MEMORY")
        assert short.process.poll() is None
    finally:
        short.end()

    assert again(run.pk, send=False)
    shared_session()
    all_of_it_is_there(driven(run))
