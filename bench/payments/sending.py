"""Sends the plan's requests by both doors at a steady pace."""

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from bench import traffic
from bench.payments.plan import Plan
from devstack.artemis import Artemis
from payments import names
from payments.requests import Sent

MOST_PER_SECOND: Final = 300.0
# A short run is sent more slowly, so that there is time for kills.
LEAST_SECONDS: Final = 40.0
TICK_SECONDS: Final = 0.5


class Sending(threading.Thread):
    """The store, in the background. `failure` tells why it gave up."""

    def __init__(self, bootstrap: str, plan: Plan, broker: Artemis | None) -> None:
        super().__init__(name="sending", daemon=True)
        self.plan = plan
        self.broker = broker
        self.ending = threading.Event()
        self.failure: str | None = None
        self._producer = traffic.producer(bootstrap, **{"linger.ms": 5})
        self.seconds = max(LEAST_SECONDS, plan.messages / MOST_PER_SECOND)

    def run(self) -> None:
        try:
            self._send_all()
        except Exception as e:  # noqa: BLE001 - told by whoever started the thread
            self.failure = f"{type(e).__name__}: {e}"

    def _send_all(self) -> None:
        began, share, gone = time.monotonic(), 0.0, [0, 0]
        while share < 1 and not self.ending.is_set():
            share = min((time.monotonic() - began) / self.seconds, 1.0)
            for door, (send, requests) in enumerate(
                ((self._by_kafka, self.plan.by_kafka), (self._by_jms, self.plan.by_jms))
            ):
                until = round(share * len(requests))
                send(requests[gone[door] : until])
                gone[door] = until
            self.ending.wait(TICK_SECONDS)
        if self._producer.flush(60):
            self.failure = "not every request was written"

    def _by_kafka(self, requests: Sequence[Sent]) -> None:
        for sent in requests:
            self._producer.produce(
                names.TOPICS[names.REQUESTS],
                value=sent.value,
                key=sent.payment.encode(),
                headers=list(sent.headers),
                on_delivery=self._reported,
            )
            self._producer.poll(0)

    def _by_jms(self, requests: Sequence[Sent]) -> None:
        if self.broker is None or not requests:
            return
        # The library is an extra.
        from bench import jms  # noqa: PLC0415 - see above

        texts = ((sent.message_id, sent.value.decode()) for sent in requests)
        jms.send(self.broker, names.JMS_ADDRESS, texts)

    def _reported(self, error: object, _message: Any) -> None:
        with contextlib.suppress(Exception):
            if error is not None:
                self.failure = str(error)
