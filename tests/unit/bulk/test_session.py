"""What a Spark session is made of; none is made here."""

import tempfile
from pathlib import Path

import pytest

from spark_jobs.errors import JobError
from spark_jobs.session import SessionSettings, _configuration, _has_memory

pytestmark = pytest.mark.fast


def test_sparks_own_pages_are_shown_to_nobody_unless_said() -> None:
    assert _configuration(SessionSettings(), is_local=True)["spark.ui.enabled"] == "false"
    said = SessionSettings(extra={"spark.ui.enabled": "true"})
    assert _configuration(said, is_local=True)["spark.ui.enabled"] == "true"


def test_on_this_machine_all_of_it_is_on_loopback() -> None:
    found = _configuration(SessionSettings(), is_local=True)
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in _configuration(SessionSettings(), is_local=False)


def test_what_the_jvm_leaves_behind_lies_in_our_temporary_folder() -> None:
    found = _configuration(SessionSettings(), is_local=True)
    assert f"-Djava.io.tmpdir={tempfile.gettempdir()}" in found["spark.driver.extraJavaOptions"]


def test_connectors_are_named_and_missing_ones_are_told(tmp_path: Path) -> None:
    with pytest.raises(JobError) as told:
        _configuration(SessionSettings(jars=tmp_path), is_local=True)
    assert told.value.code == "SPARK_JARS_MISSING"
    jar = tmp_path / "spark-sql-kafka-0-10_2.13-4.2.0.jar"
    jar.touch()
    assert _configuration(SessionSettings(jars=tmp_path), is_local=True)["spark.jars"] == str(jar)


def test_too_little_memory_is_refused_in_words() -> None:
    with pytest.raises(JobError) as told:
        _has_memory(90_000_000)
    assert told.value.code == "SPARK_MEMORY"
    assert told.value.next_step
