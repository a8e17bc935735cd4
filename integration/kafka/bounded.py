"""An end to calls of the client library that may never come back."""

import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException


def bounded(call: Callable[[], None], seconds: float) -> None:
    """Make a call that may never come back; raise KafkaException when it does not in time.

    With librdkafka 2.16 send_offsets_to_transaction() ignores its own timeout after the group's
    coordinator was restarted: it hangs until some broker changes its state, ten minutes as
    measured. Its thread is given up then; whatever its producer still does is fenced by the
    next one.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as e:  # noqa: BLE001 - handed over to the thread that waits
            raised.append(e)

    thread = threading.Thread(target=run, name="bounded call", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "no answer in time"))
    if raised:
        raise raised[0]
