"""Which names a pattern of files or objects means, and that no pattern takes long to judge."""

import time
from itertools import product
from pathlib import Path

import pytest

from spark_jobs.storage import DISK, fits


@pytest.mark.parametrize(
    ("name", "pattern", "is_meant"),
    [
        ("a.csv", "**/*.csv", True),
        ("x/y/a.csv", "**/*.csv", True),
        ("x/y/a.csv", "**/**/*.csv", True),
        ("x/y/a.csv", "x/**/z/*.csv", False),
        ("x/z/y/z/a.csv", "x/**/z/*.csv", True),
        ("x/y", "x/**", True),
        ("y/x", "x/**", False),
        ("x/y/z", "x/*", False),
    ],
)
def test_a_pattern_means_what_glob_says(name: str, pattern: str, is_meant: bool) -> None:
    assert fits(name.split("/"), pattern.split("/")) is is_meant


def test_every_short_name_is_judged_as_by_the_definition() -> None:
    def defined(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
        if not pattern:
            return not parts
        if pattern[0] == "**":
            cuts = range(len(parts) + 1)
            return any(defined(parts[cut:], pattern[1:]) for cut in cuts)
        return bool(parts) and parts[0] == pattern[0] and defined(parts[1:], pattern[1:])

    for long, steps in product(range(1, 5), range(1, 5)):
        for parts in product("ab", repeat=long):
            for pattern in product(("a", "b", "**"), repeat=steps):
                assert fits(parts, pattern) is defined(parts, pattern)


def seconds(groups: int) -> float:
    """For a deep name that the last part of a pattern with so many groups does not fit."""
    parts, pattern = ["a"] * groups * 2, ["**", "a"] * groups + ["b"]
    begun = time.process_time()
    for _ in range(20):
        assert not fits(parts, pattern)
    return time.process_time() - begun


def test_twice_the_groups_take_no_more_than_the_square() -> None:
    fewer = min(seconds(50) for _ in range(3))
    more = min(seconds(100) for _ in range(3))
    assert more < fewer * 8


@pytest.mark.parametrize("pattern", ["**/**/*.csv", "**/x/**/*.csv", "**/**", "**/" * 30 + "*.csv"])
def test_a_file_on_disk_is_found_once(tmp_path: Path, pattern: str) -> None:
    file = tmp_path / "/".join("x" * 12) / "a.csv"
    file.parent.mkdir(parents=True)
    file.write_text("a\n")
    assert DISK.find(f"{tmp_path}/{pattern}") == [(str(file), 2)]
