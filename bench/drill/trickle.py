"""`trickle`: senders who never come to an end hold up neither other senders nor the console."""

import contextlib
import itertools
import select
import socket
import time
from collections.abc import Iterator
from typing import Final

from bench.drill.ground import Ground
from bench.drill.partner import Partner, partner
from bench.drill.steady import Steadily, ping, spread

CONNECTIONS: Final = 20
SECONDS: Final = 60.0
A_BYTE_EVERY_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 1.0
PAGES: Final = ("", "queues/", "failures/")
# The new queue gets its first run, and what is posted at the very end comes through.
SETTLED_SECONDS: Final = 30.0


class Trickle:
    """One connection that sends a byte now and then; opened anew when the server ends it."""

    def __init__(self, caller: Partner, *, in_body: bool) -> None:
        head = f"POST {caller.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        whole = f"{head}Authorization: Bearer {caller.token}\r\nContent-Length: 100000\r\n\r\n["
        self._place = caller.place
        # A header that trickles is one whose end never comes.
        self._begins = (whole if in_body else head + "X-Slow: ").encode()
        self._line: socket.socket | None = None
        self.opened = 0

    def drip(self) -> None:
        """Send the next byte. What the server has to say is that it is over."""
        try:
            if self._line is not None and select.select([self._line], [], [], 0)[0]:
                self.close()
            if self._line is None:
                self._line = socket.create_connection(self._place, timeout=5)
                self.opened += 1
                self._line.sendall(self._begins)
            self._line.sendall(b" ")
        except OSError:
            self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def drill(ground: Ground) -> dict[str, object]:
    """Trickle on twenty connections, and meanwhile post and look as on any day."""
    caller = partner(ground, "trickle")
    person = ground.person()
    numbers, pages = itertools.count(), itertools.cycle(PAGES)

    def post() -> None:
        caller.post_well(ping(next(numbers)))

    def look() -> None:
        page = person.read(next(pages))
        if "</html>" not in page or 'name="password"' in page:
            raise ValueError("that is not the page")

    with _dripping(caller) as trickles:
        with Steadily(EVERY_SECONDS, post) as posting, Steadily(EVERY_SECONDS, look) as looking:
            time.sleep(SECONDS)
        opened = sum(one.opened for one in trickles)
    posted = next(numbers)
    with contextlib.suppress(Exception):  # the line says how many are missing
        ground.until(
            lambda: len(ground.effects(caller.name)) == posted, "all is applied", SETTLED_SECONDS
        )
    lost = posted - len(ground.effects(caller.name))
    is_prompt = max(posting.took + looking.took) < LONGEST_SECONDS
    return {
        "ok": is_prompt and not (posting.failures or looking.failures or lost),
        "opened": opened,
        **posting.figures("posts"),
        **looking.figures("pages"),
        **spread("applied", list(ground.effects(caller.name).values())),
        "lost": lost,
    }


@contextlib.contextmanager
def _dripping(caller: Partner) -> Iterator[list[Trickle]]:
    trickles = [Trickle(caller, in_body=number % 2 == 0) for number in range(CONNECTIONS)]

    def drip() -> None:
        for one in trickles:
            one.drip()

    try:
        drip()
        with Steadily(A_BYTE_EVERY_SECONDS, drip):
            yield trickles
    finally:
        for one in trickles:
            one.close()
