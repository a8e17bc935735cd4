"""Runs a module under a clock that is wrong: `python -m bench.chaos.skewed SECONDS MODULE …`.

The module finds its arguments as if it were run by `python -m MODULE …`.
"""

import datetime as dt
import runpy
import sys
import time
from typing import Any


class _AsBefore(type):
    """What the library makes are datetimes, whoever asks."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, REAL)


REAL = dt.datetime


def shift(seconds: float) -> None:
    """Set this process's clock ahead, or back: as Python's code sees it, before it is imported."""
    real_time, real_time_ns = time.time, time.time_ns

    class Shifted(REAL, metaclass=_AsBefore):
        # As large as the real one: compiled modules look.
        __slots__ = ()

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return REAL.now(tz) + dt.timedelta(seconds=seconds)

        @classmethod
        def utcnow(cls) -> Any:
            return REAL.utcnow() + dt.timedelta(seconds=seconds)

    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_time_ns() + int(seconds * 1e9)
    dt.datetime = Shifted  # type: ignore[misc] # everything imported from now on gets it


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
