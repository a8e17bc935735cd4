"""A kept answer: one look serves all who ask within its time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from console.monitoring.health import Recent

pytestmark = pytest.mark.fast

ASKERS = 8
LONG = 3600.0


def test_all_who_ask_at_once_get_one_look() -> None:
    looks: list[int] = []
    together = threading.Barrier(ASKERS)

    def look() -> int:
        looks.append(1)
        return len(looks)

    recent = Recent(look, LONG)

    def ask() -> int:
        together.wait()
        return recent.get()

    with ThreadPoolExecutor(ASKERS) as pool:
        answers = [asked.result() for asked in [pool.submit(ask) for _ in range(ASKERS)]]

    assert (answers, looks) == ([1] * ASKERS, [1])


def test_an_answer_that_is_over_is_looked_at_anew() -> None:
    numbers = iter(range(10))
    recent = Recent(lambda: next(numbers), 0)

    assert [recent.get(), recent.get()] == [0, 1]


def test_a_look_that_fails_is_not_kept() -> None:
    answers = iter([None, 7])

    def look() -> int:
        found = next(answers)
        if found is None:
            raise OSError("down")
        return found

    recent = Recent(look, LONG)
    with pytest.raises(OSError, match="down"):
        recent.get()

    assert recent.get() == 7


def test_what_is_forgotten_is_looked_at_anew() -> None:
    numbers = iter(range(10))
    recent = Recent(lambda: next(numbers), LONG)
    recent.get()
    recent.forget()

    assert recent.get() == 1
