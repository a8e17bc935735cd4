"""The pool of connections: limits, waiting, what is kept, what has leaked."""

import threading

import pytest

from integration.connections.errors import PoolClosedError, PoolExhaustedError
from integration.connections.pool import Limits, Pool

pytestmark = pytest.mark.fast


class Line:
    """Something that can be pooled."""

    def __init__(self) -> None:
        self.is_whole, self.is_closed = True, False

    def is_usable(self) -> bool:
        return self.is_whole

    def close(self) -> None:
        self.is_closed = True


def a_pool(**limits: float) -> Pool[Line]:
    return Pool("payments", Line, Limits(**({"wait_seconds": 0.0} | limits)))  # type: ignore[arg-type]


def test_a_connection_that_was_given_back_is_the_next_one_taken() -> None:
    pool = a_pool()
    with pool.taken() as first, pool.taken() as second:
        assert first is not second
    with pool.taken() as third:
        assert third in {first, second}
    assert pool.idle == 2


def test_after_an_error_inside_it_is_not_used_again() -> None:
    pool = a_pool()
    with pytest.raises(ValueError, match="bad"), pool.taken() as line:
        raise ValueError("bad")
    assert line.is_closed
    assert pool.idle == 0


def test_one_that_broke_meanwhile_is_replaced() -> None:
    pool = a_pool()
    with pool.taken() as line:
        pass
    line.is_whole = False
    with pool.taken() as other:
        assert other is not line
    assert line.is_closed


def test_who_finds_all_out_is_told_who_holds_them() -> None:
    pool = a_pool(most=1)
    with pool.taken(), pytest.raises(PoolExhaustedError) as told, pool.taken():
        pass
    assert "test_pool.py:" in str(told.value)
    assert pool.leases() == []


def test_who_waits_gets_the_one_that_comes_back() -> None:
    pool = a_pool(most=1, wait_seconds=20.0)
    got: list[Line] = []

    def take() -> None:
        with pool.taken() as line:
            got.append(line)

    with pool.taken() as line:
        waits = threading.Thread(target=take)
        waits.start()
    waits.join(20)
    assert got == [line]


def test_no_more_are_out_than_there_may_be() -> None:
    pool = a_pool(most=3, wait_seconds=20.0)
    most, turn = [0], threading.Lock()
    out: set[int] = set()

    def take() -> None:
        for _ in range(50):
            with pool.taken() as line:
                with turn:
                    out.add(id(line))
                    most[0] = max(most[0], len(out))
                with turn:
                    out.discard(id(line))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert 1 <= most[0] <= 3
    assert pool.idle <= 3


def test_idle_ones_end_but_for_the_least() -> None:
    pool = a_pool(least=1, idle_seconds=0.0)
    with pool.taken() as first, pool.taken() as second:
        pass
    assert pool.idle == 1
    assert [first.is_closed, second.is_closed].count(True) == 1


def test_a_connection_that_cannot_be_made_takes_nobodys_place() -> None:
    def fails() -> Line:
        raise OSError("away")

    pool: Pool[Line] = Pool("payments", fails, Limits(most=1, wait_seconds=0.0))
    for _ in range(2):
        with pytest.raises(OSError, match="away"), pool.taken():
            pass


def test_a_closed_pool_gives_none_and_ends_what_comes_back() -> None:
    pool = a_pool()
    with pool.taken() as line:
        pool.close()
    assert line.is_closed
    with pytest.raises(PoolClosedError), pool.taken():
        pass
