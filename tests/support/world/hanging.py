"""Ways in which a call never comes back, each of which leaves the other threads another chance."""

import re
import socket
import time

from integration.store import watchdog


def sleep() -> None:
    time.sleep(600)


def wait_for_answer() -> None:
    """A partner that takes the connection and never says anything."""
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as partner:
        partner.recv(1)


def hold_the_interpreter() -> None:
    """A regular expression that tries every way: no other thread of the process runs.

    Where that ends, a loop of Python's ends as well, which lets them run now and then.
    """
    re.match(r"(a+)+$", "a" * 60 + "b")


WAYS = {
    "sleep": sleep,
    "socket": wait_for_answer,
    "regex": hold_the_interpreter,
}


def hang(way: str) -> None:
    """Hang for good, in a process that is ended for it."""
    assert watchdog.owns_this_process()
    WAYS[way]()
