"""The fuzzing itself: its seeds are read, and growth is found where it is and nowhere else."""

import pytest

from tests.fuzz.growing import MOST_GROWTH, Slowest, worst
from tests.fuzz.targets import DOCUMENTED, TARGETS

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_reads_its_seeds(name: str) -> None:
    read, seeds = TARGETS[name]
    assert seeds
    assert {code for seed in seeds for code in read(seed)} <= DOCUMENTED


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("envelope", b"{", "TRUNCATED_JSON"),
        ("headers", b"{", "TRUNCATED_JSON"),
        ("paths", b"a", "BAD_PATH"),
        ("formats", b"\x00\xff", "TRUNCATED_ENCODING"),
        ("schemas", b"\x00{}", "SCHEMA_NOT_READ"),
        ("crontab", b"* * * *", "BAD_SCHEDULE"),
    ],
)
def test_every_target_tells_what_is_wrong(name: str, data: bytes, code: str) -> None:
    assert code in set(TARGETS[name].read(data))


def test_what_takes_more_than_in_proportion_is_found() -> None:
    def quadratic(data: bytes) -> None:
        for at in range(0, len(data), 64):
            data[:at].count(b"b")

    def linear(data: bytes) -> None:
        for _ in range(40):
            data.count(b"b")

    assert worst(quadratic, [b"a" * 100], 1).ratio > MOST_GROWTH
    assert worst(linear, [b"a" * 100], 1).ratio <= MOST_GROWTH


def test_the_slowest_inputs_for_their_size_are_kept() -> None:
    slowest = Slowest()
    for number in range(100):
        slowest.note(bytes([number]), number / 1_000)
    assert slowest.inputs()[0] == bytes([99])
    assert len(slowest.inputs()) == 30
