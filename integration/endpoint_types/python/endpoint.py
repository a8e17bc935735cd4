"""Delivery by a registered Python function, in a thread that nobody has to wait for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

from django.db import connections

from integration.endpoint_types.python.properties import PythonProperties
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import (
    Accepted,
    Answer,
    Later,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from integration.endpoints.registry import Function, functions
from integration.handlers.failures import classify
from integration.policy.failure import Failure, FailureClass

# Calls that came to no end keep their threads; with so many of them no more are begun.
MAX_HANGING: Final = 16
_VERDICTS: Final[Mapping[FailureClass, type[Refused | Unreachable]]] = {
    FailureClass.PERMANENT: Refused,
    FailureClass.OUTAGE: Unreachable,
    FailureClass.DISABLED: Unreachable,
}
Task = Callable[[], Any]


class PythonEndpoint:
    """One opened endpoint that calls a function; see integration.endpoints.port.Deliverer."""

    at_once = 1
    within_seconds: float | None = None

    def __init__(self, properties: PythonProperties) -> None:
        self._name = properties.function
        self._seconds = properties.total_seconds
        self._threads = Threads()

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        return [self._one(message) for message in messages]

    def connect(self) -> Answer:
        """Check that the function is installed here; it is not called."""
        if functions.get(self._name) is None:
            return self._missing()
        return Accepted(text=f"The function {self._name} is installed.")

    def close(self) -> None:
        self._threads.close()

    def _one(self, message: OutboundMessage) -> Answer:
        function = functions.get(self._name)
        if function is None:
            return self._missing()
        if self._threads.hanging >= MAX_HANGING:
            text = (
                f"{MAX_HANGING} calls of {self._name} have not come to an end. Fix the function "
                "and start the workers anew."
            )
            return Unreachable(code=EndpointCode.FUNCTION_HANGS, text=text)
        answer = self._threads.run(lambda: _called(function, message), self._seconds)
        if answer is not None:
            return answer
        text = (
            f"{self._name} came to no end within {self._seconds:g} seconds. It may have done its "
            "work or not, and may go on with it."
        )
        return Unknown(code=EndpointCode.FUNCTION_HANGS, text=text)

    def _missing(self) -> Unreachable:
        text = (
            f"No function {self._name} is installed on this worker. Install the app that has it "
            "(SLUICE_INTEGRATIONS), or correct the name in the endpoint."
        )
        return Unreachable(code=EndpointCode.FUNCTION_MISSING, text=text)


class Threads:
    """Threads that are used again, and given up when a call does not end in time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[SimpleQueue[Task | None]] = []
        self._is_closed = False
        self.hanging = 0

    def run(self, task: Callable[[], Answer], seconds: float) -> Answer | None:
        """Return what the task answers; None when it takes longer, and then it goes on unheard."""
        outbox: SimpleQueue[Answer] = SimpleQueue()
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            Thread(target=_work, args=(inbox,), name="sluice-endpoint", daemon=True).start()
        with self._lock:
            self.hanging += 1
        inbox.put(lambda: self._answered(task, outbox))
        try:
            answer = outbox.get(timeout=seconds)
        except Empty:
            # What it does later is nobody's; then its thread ends.
            inbox.put(None)
            return None
        with self._lock:
            if self._is_closed:
                inbox.put(None)
            else:
                self._idle.append(inbox)
        return answer

    def close(self) -> None:
        """Let idle threads end; those that are still at work end after it."""
        with self._lock:
            self._is_closed = True
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()

    def _answered(self, task: Callable[[], Answer], outbox: SimpleQueue[Answer]) -> None:
        answer = task()
        with self._lock:
            self.hanging -= 1
        outbox.put(answer)


def _work(inbox: SimpleQueue[Task | None]) -> None:
    """One thread's life: its own database connections end with it."""
    try:
        while (task := inbox.get()) is not None:
            task()
    finally:
        connections.close_all()


def _called(function: Function, message: OutboundMessage) -> Answer:
    try:
        answer = function(message)
    except Exception as problem:  # noqa: BLE001 - whatever a function raises is its verdict
        return _of(classify(problem))
    match answer:
        case None:
            return Accepted(text="The function took it.")
        case Accepted() | Refused() | Later() | Unreachable() | Unknown():
            return replace(answer, may_quote=True)
        case Failure():
            return _of(answer)
        case _:
            text = (
                f"The function returned a {type(answer).__name__}, which is no answer. It may have "
                "done its work; let it return nothing."
            )
            return Unknown(code=EndpointCode.FUNCTION_ANSWER, text=text)


def _of(failure: Failure) -> Answer:
    """The answer that a handler's failure is among endpoints."""
    verdict = _VERDICTS.get(failure.kind, Later)
    return verdict(code=failure.code, text=failure.text, may_quote=True)
