"""Names of machines within a time limit: their addresses, and a connection to one of them."""

import contextlib
import ipaddress
import socket
import time
from queue import Empty, SimpleQueue
from threading import Thread

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolved(host: str, port: int, seconds: float) -> list[Address]:
    """Each address once, at least one, in the resolver's order.

    Raises TimeoutError where there is no answer within `seconds`, else OSError.
    """
    # The system's resolver knows no time limit, so it has a thread.
    answers: SimpleQueue[list[Address] | OSError] = SimpleQueue()

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            # A link-local IPv6 address comes with its zone, which is no part of the address.
            texts = dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows)
            answers.put([ipaddress.ip_address(text) for text in texts])
        except OSError as problem:
            answers.put(problem)
        except (UnicodeError, OverflowError):
            answers.put(socket.gaierror(socket.EAI_NONAME, "it is not written as one"))

    Thread(target=ask, name="sluice-resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=max(seconds, 0.001))
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, OSError):
        raise answer
    if not answer:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return answer


def connected(host: str, port: int, seconds: float) -> socket.socket:
    """A connection to the first address that takes it; `seconds` are for all of it together.

    An address that hangs leaves the ones after it their share of the time. Raises OSError of the
    last address, TimeoutError where the time is over.
    """
    deadline = time.monotonic() + seconds
    *others, last = [(str(address), port) for address in resolved(host, port, seconds)]
    for count, place in enumerate(others):
        share = (deadline - time.monotonic()) / (len(others) + 1 - count)
        with contextlib.suppress(OSError):
            return socket.create_connection(place, max(share, 0.001))
    return socket.create_connection(last, max(deadline - time.monotonic(), 0.001))
