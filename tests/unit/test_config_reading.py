"""What a configuration file from anywhere costs to read, however it is made."""

import time

import pytest

from crontasks.configfile.applying import _in_order
from crontasks.configfile.reading import ConfigFileError, Entry, Given, read

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "number", ["1:30:00", "1:" * 300 + "1.5", "1:" * 200_000 + "1", "9" * 5_000, "1" * 1_000_000]
)
def test_a_number_that_nobody_means_is_refused_at_once(number: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigFileError) as told:
        read(f"format: 1\nqueues:\n- name: {number}\n".encode(), ["queues"])
    assert [mistake.line for mistake in told.value.mistakes] == [3]
    assert time.process_time() - began < 20


@pytest.mark.parametrize("name", ['"a\\0b"', '"a\\ud800b"'])
def test_a_name_that_the_database_cannot_hold_is_told_with_its_line(name: str) -> None:
    file = f"format: 1\nqueues:\n- name: a\n  properties:\n    {name}: 1\n"
    with pytest.raises(ConfigFileError) as told:
        read(file.encode(), ["queues"])
    assert [mistake.line for mistake in told.value.mistakes] == [5]


@pytest.mark.parametrize(
    "text",
    ['queues: "\\U00110000"', 'queues: "\\UFFFFFFFF"', f"%YAML 1.{'9' * 5_000}\n---\nqueues: []"],
    ids=["no character", "no number of one", "no version"],
)
def test_what_the_yaml_library_stumbles_over_is_no_yaml(text: str) -> None:
    with pytest.raises(ConfigFileError):
        read(text.encode(), ["queues"])


def entry(number: int, error_queue: int | None) -> Entry:
    values = {"name": Given(number, f"q{number}")}
    if error_queue is not None:
        values["error_queue"] = Given(number, f"q{error_queue}")
    return Entry(number, values)


def seconds(count: int) -> float:
    """For a chain in which each queue is the error queue of the one before."""
    chained = [entry(n, n + 1 if n + 1 < count else None) for n in range(count)]
    began = time.process_time()
    assert [one.line for one in _in_order(chained)] == list(reversed(range(count)))
    return time.process_time() - began


def test_queues_come_behind_their_error_queues_in_linear_time() -> None:
    fewer, more = (min(seconds(count) for _ in range(3)) for count in (10_000, 80_000))
    # Eight times as many: a square would take 64 times as long.
    assert more < fewer * 32


def test_what_goes_round_in_a_circle_or_stands_elsewhere_comes_as_well() -> None:
    entries = [entry(0, 1), entry(1, 0), entry(2, 9), entry(3, None), entry(4, 2)]
    assert [one.line for one in _in_order(entries)] == [2, 3, 4, 0, 1]
