"""`transaction`: one that a stranger leaves open is named; what waits behind it comes through."""

import time
from typing import Final

from confluent_kafka import Producer

from bench import traffic
from bench.drill.ground import Ground
from bench.drill.steady import ping, spread

NAMED_SECONDS: Final = 60.0
SILENT_SECONDS: Final = 30.0
APPLIED_SECONDS: Final = 30.0
# Longer than the drill: the brokers shall not end it.
OPEN_MS: Final = 600_000
INSIDE: Final = 10
BEFORE: Final = 3
BEHIND: Final = 50
# The numbers of what is written in the transaction, so that it would be known if it came through.
STRANGE: Final = 1_000
# Each look costs a process a second of work.
LOOK_EVERY_SECONDS: Final = 2.0


def drill(ground: Ground) -> dict[str, object]:
    """Leave a transaction open until it is named, abort it, and look again."""
    queue = ground.queue("transaction", kind="continuous", interface="BenchPing")
    _send(ground, queue, range(BEFORE))
    ground.until(lambda: len(ground.effects(queue)) == BEFORE, f"{queue} runs", APPLIED_SECONDS)
    stranger = _stranger(ground, queue)
    _send(ground, queue, range(BEFORE, BEFORE + BEHIND))
    named = _looked(ground, queue, is_named=True, seconds=NAMED_SECONDS)
    waited = len(ground.effects(queue)) == BEFORE
    stranger.abort_transaction(30)
    silent = _looked(ground, queue, is_named=False, seconds=SILENT_SECONDS)
    effects = ground.effects(queue)
    strange = sum(number >= STRANGE for number in effects)
    lost = len(set(range(BEFORE + BEHIND)) - set(effects))
    is_told = None not in {*named.values(), *silent.values()}
    return {
        "ok": is_told and waited and not strange and not lost,
        **{f"{place}_named": seconds for place, seconds in named.items()},
        **{f"{place}_silent": seconds for place, seconds in silent.items()},
        **spread("behind", [took for number, took in effects.items() if number >= BEFORE]),
        "waited": waited,
        "aborted_applied": strange,
        "lost": lost,
    }


def _send(ground: Ground, queue: str, numbers: range) -> None:
    traffic.produce(ground.bootstrap, queue, [ping(number) for number in numbers])


def _stranger(ground: Ground, queue: str) -> Producer:
    """A producer with a transaction whose records Kafka has, and whose end is not decided."""
    producer = traffic.producer(
        ground.bootstrap, **{"transactional.id": f"x-{queue}", "transaction.timeout.ms": OPEN_MS}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(STRANGE, STRANGE + INSIDE):
        producer.produce(queue, ping(number))
    if producer.flush(30):
        raise TimeoutError("Kafka did not take the records of the transaction")
    return producer


def _looked(
    ground: Ground, queue: str, *, is_named: bool, seconds: float
) -> dict[str, float | None]:
    """Seconds until `check_flow` and the overview say it, or no more say it; None: too late."""
    person = ground.person()
    sentence = f"An open transaction holds back {queue}"
    looks = {
        "check_flow": lambda: "left a transaction open" in ground.told("check_flow", queue)[1],
        "overview": lambda: sentence in person.read(""),
    }
    began = time.monotonic()
    found: dict[str, float | None] = dict.fromkeys(looks)
    while None in found.values() and time.monotonic() - began < seconds:
        for place in [place for place, at in found.items() if at is None]:
            if looks[place]() is is_named:
                found[place] = round(time.monotonic() - began, 1)
        time.sleep(LOOK_EVERY_SECONDS)
    return found
