"""Time for something else, made of what would be waiting for the server."""

import select
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.waiting import Ready, Wait

from integration.delivery.ports import nothing

Answer = Generator[Wait, Ready | int, Any]


@contextmanager
def filled(session: psycopg.Connection[Any], act: Callable[[], bool]) -> Iterator[None]:
    """Call `act` while a statement's answer is awaited in the block, whoever sent it.

    It should take about as long as a short statement, must not raise nor use the session, and
    returns whether there is more to do: after the first False the session waits as it always does.
    """
    if act is nothing or session.closed:
        yield  # of a closed one nothing will be awaited: the first statement says that it is gone
        return
    poll = select.poll()
    poll.register(session.pgconn.socket, select.POLLIN)
    wait = session.wait

    def until_answered(answer: Answer) -> Answer:
        try:
            state = next(answer)
            while True:
                while state == Wait.R and "wait" in vars(session) and not poll.poll(0):
                    if not act():
                        vars(session).pop("wait", None)
                state = answer.send((yield state))
        except StopIteration as end:
            return end.value

    def acting(answer: Answer, *how: Any, **named: Any) -> Any:
        return wait(until_answered(answer), *how, **named)

    vars(session)["wait"] = acting
    try:
        yield
    finally:
        vars(session).pop("wait", None)
