"""The function or class that takes each inbound message type."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from integration.errors import IntegrationError
from integration.handlers.retries import Retries
from integration.handlers.user_proof import with_permission
from integration.policy.retry import RetryRule

Taker = TypeVar("Taker", bound=Callable[..., Any])
# Takes the Message, and the Failure of its last try.
Exhausted = Callable[..., object]


class HandlerConflictError(IntegrationError):
    """Two handlers claim one interface."""

    code = "HANDLER_CONFLICT"

    def __init__(self, *, interface: str, first: str, second: str) -> None:
        super().__init__(
            f"Both {first} and {second} are registered for {interface}.",
            next_step="Keep one of them.",
        )


class BatchOfUsersError(IntegrationError):
    """A batch handler asks for the rights of a user, and each of its messages may have another."""

    code = "BATCH_OF_USERS"

    def __init__(self, *, interface: str) -> None:
        super().__init__(
            f"The handler of {interface} takes batches, whose messages may be of several users, "
            "and asks for a permission.",
            next_step="Take one message at a time, or ask `verified_user(message)` for each.",
        )


@dataclass(frozen=True, slots=True)
class Registration:
    """A handler and what it declared about itself.

    `call` takes one Message, or a list of them when `batch`. `isolated` asks for a transaction
    per message. `at_least_once` allows statements on other databases, which no promise covers.
    `retry` is its own rule for retries, `on_exhausted` what is called when they are spent.
    `permission` is what the user needs whom the message was sent for, "" for nothing.
    """

    interface: str
    call: Callable[..., Any]
    batch: bool
    isolated: bool
    at_least_once: bool
    origin: str
    retry: RetryRule | None = None
    on_exhausted: Exhausted | None = None
    permission: str = ""


class Registry:
    """Interface -> Registration. Filled when Django starts, from each app's `handlers` module."""

    def __init__(self) -> None:
        self._by_interface: dict[str, Registration] = {}

    def add(self, registration: Registration) -> None:
        """Raises HandlerConflictError when another handler has the interface already."""
        first = self._by_interface.setdefault(registration.interface, registration)
        if first.origin != registration.origin:
            raise HandlerConflictError(
                interface=registration.interface, first=first.origin, second=registration.origin
            )
        self._by_interface[registration.interface] = registration

    def get(self, interface: str) -> Registration | None:
        return self._by_interface.get(interface)

    def __iter__(self) -> Iterator[Registration]:
        return iter(sorted(self._by_interface.values(), key=lambda r: r.interface))


registry = Registry()


def inbound(  # noqa: PLR0913 - what a handler may declare about itself
    interface: str,
    *,
    batch: bool = False,
    isolated: bool = False,
    at_least_once: bool = False,
    retry: Retries | None = None,
    on_exhausted: Exhausted | None = None,
    permission: str = "",
) -> Callable[[Taker], Taker]:
    """Register a function, or a class whose instances are called, for an INTERFACE.

    A class is made once per process, without arguments. `retry` goes before the queue's policy,
    and what is set up for the service before both. `on_exhausted(message, failure)` is called once
    for each message whose retries are spent, in the transaction that puts it on hold.

    With a `permission`, such as "assets.change_asset", it is called for messages alone whose user
    is proven and has it; others go on hold as USER_NOT_PROVEN or USER_NOT_ALLOWED. Raises
    HandlerConflictError, BatchOfUsersError.
    """
    if batch and permission:
        raise BatchOfUsersError(interface=interface)

    def register(taker: Taker) -> Taker:
        call = taker() if isinstance(taker, type) else taker
        call = with_permission(call, permission) if permission else call
        origin = f"{taker.__module__}.{taker.__qualname__}"
        rule = None if retry is None else retry.rule
        registry.add(
            Registration(
                *(interface, call, batch, isolated, at_least_once),
                *(origin, rule, on_exhausted, permission),
            )
        )
        return taker

    return register
