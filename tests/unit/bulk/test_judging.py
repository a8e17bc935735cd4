"""What is known of an offset, and what that means: every fate, and never lost without a proof."""

import errno
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from integration.delivery import reading as engine
from spark_jobs.errors import JobError, balance
from spark_jobs.reconcile.accounting import NAMED, Account, Report, identity, together
from spark_jobs.reconcile.fates import Fate, counted
from spark_jobs.reconcile.judging import covering, judged
from spark_jobs.reconcile.knowing import Batch, Failed, Known
from spark_jobs.topics import reading
from spark_jobs.topics.reading import COPY, MESSAGE, RETRY_MARKER

pytestmark = pytest.mark.fast

AT = datetime(2026, 1, 31, tzinfo=UTC)


def a_batch(first: int, last: int, number: int = 1) -> Batch:
    return Batch(first, last, number, AT)


def a_failure(state: str, ended: str = "", *, replayed: bool = False) -> Failed:
    return Failed(state, ended, "REFUSED", "an-id", replayed)


def fate(offset: int = 5, kind: int = MESSAGE, **known: Any) -> Fate:
    """Of an offset of a queue that stands at 10, and passed everything in one tracked batch."""
    whole = {
        "next_offset": 10,
        "first": 0,
        "whole": True,
        "batches": [a_batch(0, 9)],
        "tracked": frozenset({1}),
    }
    [found] = judged([(offset, kind)], Known(**{**whole, **known}))
    return found


def test_an_ending_of_its_own_batch_says_what_became_of_a_message() -> None:
    assert fate(endings={5: ["APPLIED"]}) == Fate.APPLIED
    assert fate(endings={5: ["SUPERSEDED"]}) == Fate.SUPERSEDED
    assert fate(endings={5: ["DUPLICATE"]}) == Fate.DUPLICATE
    assert fate(endings={5: ["STALE"]}) == Fate.RETRY_MARKER
    assert fate(endings={5: ["PASSED"]}) == Fate.COPY
    assert fate(endings={5: ["HOLD"]}) == Fate.CLOSED
    assert fate(endings={5: ["RETRY", "PASSED"]}) == Fate.CLOSED


def test_what_is_through_beyond_the_position_is_not_to_come() -> None:
    beyond = {"batches": [a_batch(0, 14)], "done": frozenset({12}), "endings": {12: ["APPLIED"]}}
    assert fate(12, **beyond) == Fate.APPLIED
    assert fate(11, **beyond) == Fate.TO_COME


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("RETRY", Fate.RETRY),
        ("HOLD", Fate.HELD),
        ("READY", Fate.READY),
        ("PARKED", Fate.PARKED),
        ("PROCESSING", Fate.PROCESSING),
    ],
)
def test_an_open_failure_is_what_counts_wherever_the_position_is(
    state: str, expected: Fate
) -> None:
    held = {5: a_failure(state)}
    assert fate(failures=held, endings={5: ["HOLD"]}) == expected
    assert fate(failures=held, next_offset=5) == expected
    assert fate(failures=held, next_offset=None, first=None, batches=[]) == expected


def test_a_closed_failure_says_how_it_ended() -> None:
    tried = {5: ["HOLD"]}
    assert fate(failures={5: a_failure("RESOLVED", "APPLIED")}, endings=tried) == Fate.RESOLVED
    late = a_failure("RESOLVED", "SUPERSEDED")
    assert fate(failures={5: late}, endings=tried) == Fate.SUPERSEDED
    assert fate(failures={5: a_failure("DELETED", "DELETED")}, endings=tried) == Fate.DELETED
    # A deleted head is passed by the next run.
    assert fate(failures={5: a_failure("DELETED", "DELETED")}, next_offset=5) == Fate.DELETED


def test_effects_that_were_committed_twice_are_doubled() -> None:
    again = [a_batch(0, 9), a_batch(4, 9, 2)]
    twice = {5: ["APPLIED", "APPLIED"]}
    assert fate(endings=twice, batches=again, tracked=frozenset({1, 2})) == Fate.DOUBLED
    resolved = {5: a_failure("RESOLVED", "APPLIED")}
    assert fate(endings={5: ["APPLIED"]}, failures=resolved) == Fate.DOUBLED
    # The second reading found the first one's effects, and wrote nothing.
    seen = {5: ["APPLIED", "SUPERSEDED"]}
    assert fate(endings=seen, batches=again, tracked=frozenset({1, 2})) == Fate.APPLIED


def test_what_somebody_had_replayed_is_not_doubled() -> None:
    replayed = {5: a_failure("RESOLVED", "APPLIED", replayed=True)}
    assert fate(endings={5: ["APPLIED"]}, failures=replayed) == Fate.REPLAYED
    assert fate(endings={5: ["APPLIED", "APPLIED"]}, failures=replayed) == Fate.DOUBLED
    found = {5: a_failure("RESOLVED", "SUPERSEDED", replayed=True)}
    assert fate(endings={5: ["APPLIED"]}, failures=found) == Fate.REPLAYED


def test_what_the_position_has_not_passed_is_to_come() -> None:
    assert fate(offset=10, batches=[]) == Fate.TO_COME
    assert fate(next_offset=None, first=None, batches=[]) == Fate.TO_COME
    # It was passed before, and the position went back since.
    assert fate(next_offset=3, endings={5: ["APPLIED"]}) == Fate.TO_COME


def test_a_message_is_lost_where_its_batch_tracked_others() -> None:
    assert fate() == Fate.LOST
    # Nobody knows whether this batch was tracked, or its day is gone.
    assert fate(tracked=frozenset()) == Fate.PASSED
    # One of two that passed it was not tracked: that may have been the one that settled it.
    both = [a_batch(0, 5), a_batch(4, 9, 2)]
    assert fate(batches=both) == Fate.READ_TWICE


def test_a_message_that_no_batch_passed_is_lost_behind_the_first_one() -> None:
    assert fate(batches=[]) == Fate.LOST
    # Before everything that is known: where reading began there, it must have been read.
    assert fate(batches=[], first=6) == Fate.UNKNOWN
    assert fate(batches=[], first=6, began_at_beginning=True) == Fate.LOST
    assert fate(batches=[], first=6, began_at_beginning=True, whole=False) == Fate.UNKNOWN
    assert fate(batches=[], first=None) == Fate.UNKNOWN


def test_a_gap_that_was_recorded_is_no_loss() -> None:
    assert fate(batches=[], gaps=[(5, 6)]) == Fate.GAP
    assert fate(batches=[], gaps=[(3, 5)]) == Fate.LOST


def test_markers_leave_no_trace_of_their_own() -> None:
    assert fate(kind=RETRY_MARKER) == Fate.RETRY_MARKER
    assert fate(kind=COPY, is_error_queue=True) == Fate.COPY
    # On any other queue it is a message with a partner's header.
    assert fate(kind=COPY) == Fate.LOST


def test_where_one_batch_stopped_and_the_next_begins_only_that_has_passed() -> None:
    stopped, later = a_batch(0, 5), a_batch(5, 9, 2)
    found = [list(batches) for batches in covering([stopped, later], [4, 5, 6, 10])]
    assert found == [[stopped], [later], [later], []]
    assert fate(batches=[stopped, later], tracked=frozenset()) == Fate.PASSED
    # Tried alone again and again while something was down.
    tries = [a_batch(5, 5, number) for number in (2, 3)]
    assert list(covering([a_batch(0, 5), *tries, a_batch(5, 9, 4)], [5])) == [[a_batch(5, 9, 4)]]


def test_a_position_that_went_back_passes_twice() -> None:
    batches = [a_batch(0, 4, 1), a_batch(2, 6, 7), a_batch(5, 9, 2)]
    found = [[one.number for one in some] for some in covering(batches, range(0, 10, 2))]
    assert found == [[1], [1, 7], [1, 7], [2, 7], [2]]


def test_every_fate_is_counted_once_and_has_its_sentence() -> None:
    counts = counted(dict.fromkeys(Fate, 1))
    balance(counts)
    assert counts["read"] == len(Fate)
    assert [fate.gravity for fate in Fate] == list(range(len(Fate)))
    assert len({fate.sentence for fate in Fate}) == len(Fate)


def test_an_account_names_the_gravest_and_keeps_no_more_than_it_may() -> None:
    known = Known(next_offset=5_000, first=0, batches=[a_batch(0, 4_999)], tracked=frozenset({1}))
    tasks = []
    for first in (2_000, 0):
        account = Account()
        account.add(0, [(offset, MESSAGE) for offset in range(first, first + 2_000)], known)
        account.add(0, [(offset, MESSAGE) for offset in range(6_000, 6_010)], known)
        assert len(account.named) == NAMED
        tasks.append(account)
    whole = together(tasks)
    assert (whole.fates, whole.names) == ({"lost": 4_000, "to_come": 20}, 4_020)
    assert [name[2] for name in whole.named] == list(range(NAMED))
    assert {name[3] for name in whole.named} == {"lost"}


def test_markers_are_known_by_the_names_that_the_engine_gives_them() -> None:
    assert (reading.RETRY_MARKER_HEADER, reading.COPY_HEADER) == (
        engine.RETRY_MARKER_HEADER,
        engine.COPY_HEADER,
    )


def test_a_driver_that_lost_the_run_takes_no_share_of_another(tmp_path: Path) -> None:
    file = str(tmp_path / "reports/names.jsonl")
    former, driver = (Report(file, "a-run", epoch) for epoch in (1, 2))
    for number, report in enumerate((former, driver, driver)):
        with report.share(number) as write:
            write([(0, 0, number, "lost", "", "")])
    former.drop()
    assert driver.joined(lambda _: None) == Path(file).stat().st_size
    named = [json.loads(line)["offset"] for line in Path(file).read_text().splitlines()]
    assert named == [1, 2]
    assert [path.name for path in Path(file).parent.iterdir()] == ["names.jsonl"]


def test_a_report_is_put_where_there_is_none_but_one_of_its_own_run(tmp_path: Path) -> None:
    file = tmp_path / "names.jsonl"
    noted: list[Sequence[int]] = []
    Report(str(file), "a-run", 1).joined(noted.append)
    assert noted == [identity(file)]
    other = Report(str(file), "another", 1)
    for act in (other.refuse_another, lambda: other.joined(noted.append)):
        with pytest.raises(JobError) as told:
            act()
        assert told.value.code == "FILE_EXISTS"
    other.drop()

    again = Report(str(file), "a-run", 2, noted[0])
    again.refuse_another()
    with again.share(0) as write:
        write([(0, 0, 1, "lost", "", "")])
    assert again.joined(noted.append) == file.stat().st_size > 0
    assert [path.name for path in tmp_path.iterdir()] == ["names.jsonl"]


def test_a_report_is_put_also_where_files_have_no_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    file = tmp_path / "names.jsonl"
    Report(str(file), "a-run", 1).joined(lambda _: None)
    with pytest.raises(JobError) as told:
        Report(str(file), "another", 1).joined(lambda _: None)
    assert told.value.code == "FILE_EXISTS"
