"""The pace of a run is that of this start: what was done before is told apart."""

from datetime import UTC, datetime, timedelta
from typing import Any

from crontasks.bulk.driving import paced
from spark_jobs.contract import Arguments, Progress, Tell
from spark_jobs.work import Work

BEGIN = datetime(2026, 11, 22, 12, tzinfo=UTC)


def said(stage: str, done: int, rows: int) -> dict[str, object]:
    return {"stage": stage, "done": done, "total": 10, "rows": rows}


def test_the_first_word_of_a_start_is_where_its_pace_begins() -> None:
    first = paced(said("stage", 4, 400), {}, BEGIN)
    assert (first["done_before"], first["rows_before"]) == (4, 400)
    later = paced(said("stage", 6, 600), first, BEGIN + timedelta(seconds=9))
    assert (later["since"], later["done_before"]) == (BEGIN.isoformat(), 4)
    assert later["at"] == (BEGIN + timedelta(seconds=9)).isoformat()


def test_each_stage_has_a_pace_of_its_own() -> None:
    first = paced(said("stage", 4, 400), {}, BEGIN)
    other = paced(said("write", 1, 10), first, BEGIN + timedelta(seconds=9))
    assert (other["done_before"], other["rows_before"]) == (1, 10)


def test_what_is_asked_at_each_step_asks_the_database_now_and_then() -> None:
    told: list[str] = []

    class Telling(Tell):
        def progress(self, progress: Progress) -> None:
            told.append(f"{progress.done} of {progress.total}")

        def go_on(self) -> None:
            told.append("may it go on?")

    arguments = Arguments(job="import", run="", parameters={}, database="")
    nothing: Any = None
    heed = Work(nothing, arguments, Telling(), nothing, nothing).heeding()
    for done in range(100):
        heed(Progress(stage="plan", done=done, total=100))
    assert told == ["0 of 100", "may it go on?"]
