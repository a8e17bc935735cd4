"""The Python functions that take the messages of endpoints."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from integration.endpoints.port import Answer, OutboundMessage
from integration.errors import IntegrationError

Taker = TypeVar("Taker", bound=Callable[[OutboundMessage], Any])
# None and Accepted mean delivered; a Failure (integration.handlers.permanent and its like) counts
# as the exception of the same name would.
Function = Callable[[OutboundMessage], Answer | Any]


class EndpointFunctionConflictError(IntegrationError):
    """Two functions claim one name."""

    code: ClassVar[str] = "ENDPOINT_FUNCTION_CONFLICT"

    def __init__(self, *, name: str, first: str, second: str) -> None:
        super().__init__(
            f"Both {first} and {second} are registered as the endpoint function {name}.",
            next_step="Keep one of them.",
        )


class EndpointFunctions:
    """Name -> function. Filled when Django starts, from each app's `handlers` module."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[Function, str]] = {}

    def add(self, name: str, function: Function) -> None:
        """Raises EndpointFunctionConflictError when another function has the name already."""
        origin = f"{function.__module__}.{function.__qualname__}"
        _, first = self._by_name.setdefault(name, (function, origin))
        if first != origin:
            raise EndpointFunctionConflictError(name=name, first=first, second=origin)
        self._by_name[name] = (function, origin)

    def get(self, name: str) -> Function | None:
        function, _ = self._by_name.get(name, (None, ""))
        return function

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._by_name))


functions = EndpointFunctions()


def endpoint_function(name: str) -> Callable[[Taker], Taker]:
    """Register a function that takes each OutboundMessage of the endpoints that name it.

    It runs outside any transaction, in a thread of its own, and perhaps twice for one message:
    `message.message_id` is the same then. Of an endpoint that is a topic it runs in the transaction
    of the message and returns what is to be written. Raises EndpointFunctionConflictError.
    """

    def register(taker: Taker) -> Taker:
        functions.add(name, taker)
        return taker

    return register
