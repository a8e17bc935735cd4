"""The threads of a relay process: which are started again, and when the process comes home."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from integration.delivery.relay.fleet import Shard, relay_each

ONE, OTHER = (1, 0), (2, 0)


def test_a_relay_that_ended_is_started_again_after_a_look_that_found_no_shards() -> None:
    looks: Iterator[list[Shard]] = chain([[ONE, OTHER], []], repeat([ONE, OTHER]))
    calls: Counter[Shard] = Counter()
    again = threading.Event()
    patience = time.monotonic() + 20

    def stop() -> bool:
        return again.is_set() or time.monotonic() > patience

    def relay(shard: Shard) -> bool:
        calls[shard] += 1
        if shard == ONE:
            if calls[ONE] == 2:
                again.set()
            return False
        while not stop():
            time.sleep(0.02)
        return False

    relay_each(lambda: next(looks), relay, stop)
    assert calls == {ONE: 2, OTHER: 1}


def test_no_relay_outlives_the_look_that_failed() -> None:
    looks: Iterator[list[Shard]] = iter([[ONE]])
    ended = threading.Event()
    looked_again = threading.Event()

    def shards() -> list[Shard]:
        try:
            return next(looks)
        except StopIteration:
            looked_again.set()
            raise ConnectionError from None

    def relay(_: Shard) -> bool:
        assert looked_again.wait(20)
        time.sleep(0.1)
        ended.set()
        return False

    with pytest.raises(ConnectionError):
        relay_each(shards, relay, lambda: False)
    assert ended.is_set()


def test_a_process_comes_home_when_others_hold_all_shards_or_there_are_none() -> None:
    for shards in ([ONE, OTHER], []):
        began = time.monotonic()
        relay_each(lambda shards=shards: shards, lambda _: True, lambda: False)
        assert time.monotonic() - began < 20
