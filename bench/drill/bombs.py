"""`bombs`: documents made to keep a parser busy are refused at once; what follows comes through."""

import base64
import gzip
import json
import time
from collections.abc import Callable, Mapping
from typing import Final

from bench.drill.ground import Ground
from bench.drill.partner import SERVICE, Partner, partner
from bench.drill.steady import ping, spread
from bench.traffic import producer

REFUSED_SECONDS: Final = 1.0
APPLIED_SECONDS: Final = 2.0
# What comes later than allowed is still waited for, so that the line says how late.
PATIENCE_SECONDS: Final = 30.0
FIRST_RUN_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.02
_ENTITIES: Final = b"".join(b'<!ENTITY %c "&%c;&%c;">' % (n + 1, n, n) for n in range(97, 117))
# All below what a topic takes (1 MB), so that both roads get the same.
BOMBS: Final[Mapping[str, bytes]] = {
    # One pattern for all that may stand before a document type tried 2 ** 60 ways to cut these.
    "blanks": b" " * 60 + b"<a/> <!DOCTYPE",
    "many_blanks": b"\n" * 400_000 + b"<a/> <!DOCTYPE",
    "comments": b"<!-- -->" * 50_000 + b"<a/> <!DOCTYPE",
    "open_comments": b"<!--" * 100_000 + b"<!DOCTYPE",
    "instructions": b"<?a?>" * 80_000 + b"<a/> <!DOCTYPE",
    "entities": b'<!DOCTYPE a [<!ENTITY a "ha">' + _ENTITIES + b"]><a>&u;</a>",
    "deep_xml": b"<a>" * 100_000,
    "deep_json": b"[" * 400_000,
    "digits": b"[" + b"9" * 400_000 + b"]",
}
_HELD: Final = """
SELECT e.code FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
WHERE q.name = %s AND e."offset" = %s AND e.state = 'HOLD'
"""


def drill(ground: Ground) -> dict[str, object]:
    """Post and send each bomb with a good message behind it, one after the other."""
    caller = partner(ground, "bombs")
    run = _Run(ground, caller)
    run.warm_up()
    for name, body in BOMBS.items():
        run.post(name, body)
        run.send(f"{name} bare", body)
        run.send(f"{name} in an envelope", _enveloped(body.decode()))
    zeros = gzip.compress(b"[" + b" " * 100_000_000 + b"]")
    run.send("zipped", _enveloped(base64.b64encode(zeros).decode(), compressed="1"))
    return {
        "ok": not run.wrong,
        **spread("http", run.posted),
        **spread("kafka", run.held),
        **spread("behind", list(ground.effects(caller.name).values())),
        "codes": sorted(run.codes),
        "wrong": run.wrong,
    }


class _Run:
    def __init__(self, ground: Ground, caller: Partner) -> None:
        self.ground, self.caller = ground, caller
        self.posted: list[float] = []
        self.held: list[float] = []
        self.codes: set[str] = set()
        self.wrong: list[str] = []
        self._good = 0
        self._producer = producer(ground.bootstrap)

    def warm_up(self) -> None:
        """Wait for the new queue's first run, and for the relay's first look at its topic."""
        self.caller.post_well(ping(-1))
        self._wait_for(-1, FIRST_RUN_SECONDS)
        self.ground.rig.write("DELETE FROM bench_effect WHERE queue = %s", [self.caller.name])

    def post(self, name: str, body: bytes) -> None:
        answer = self.caller.post(body)
        self.posted.append(answer.seconds)
        self.codes.add(answer.code)
        is_refused = 400 <= answer.status < 500 and answer.code
        if not is_refused or answer.seconds > REFUSED_SECONDS:
            told = f"{answer.status} {answer.code}, {answer.seconds:.2f} s"
            self.wrong.append(f"{name} over HTTP: {told}")
        self.caller.post_well(ping(self._good))
        self._applied(f"{name} over HTTP")

    def send(self, name: str, value: bytes) -> None:
        began = time.monotonic()
        offset = self._write(value)
        self._write(ping(self._good))
        # Timed until it is seen: the row's own time is that of a transaction's beginning.
        self._in_time(lambda: self._code(offset) is not None, PATIENCE_SECONDS)
        seconds, code = time.monotonic() - began, self._code(offset)
        self.held.append(seconds)
        self.codes.add(code or "")
        if code is None or seconds > REFUSED_SECONDS:
            held = "never" if code is None else f"{seconds:.2f} s later"
            self.wrong.append(f"{name}: on hold {held}")
        self._applied(name)

    def _code(self, offset: int) -> str | None:
        """Return the code with which that message is on hold; None where it is not."""
        code: str | None = self.ground.value(_HELD, [self.caller.name, offset])
        return code

    def _write(self, value: bytes) -> int:
        """Write one record; returns its offset."""
        at: list[int] = []
        self._producer.produce(
            self.caller.name, value, on_delivery=lambda _, record: at.append(record.offset() or 0)
        )
        self._producer.flush(30)
        return at[0]

    def _applied(self, name: str) -> None:
        """Note it when the good message behind that one comes late, or not at all."""
        took = self._wait_for(self._good, PATIENCE_SECONDS)
        if took is None or took > APPLIED_SECONDS:
            late = "never" if took is None else f"after {took:.2f} s"
            self.wrong.append(f"{name}: the good one behind it came {late}")
        self._good += 1

    def _wait_for(self, number: int, seconds: float) -> float | None:
        self._in_time(lambda: number in self.ground.effects(self.caller.name), seconds)
        return self.ground.effects(self.caller.name).get(number)

    def _in_time(self, holds: Callable[[], bool], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_SECONDS)
        return True


def _enveloped(payload: str, **fields: str) -> bytes:
    envelope = {"interfacetype": "MAXIMO", "INTERFACE": SERVICE, "payload": payload, **fields}
    return json.dumps(envelope).encode()
