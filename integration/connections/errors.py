"""Troubles with connections that applications take from a pool."""

from collections.abc import Sequence

from integration.errors import IntegrationError


class FactoryUnknownError(IntegrationError):
    """Nobody has set up a connection factory of that name."""

    code = "CONNECTION_UNKNOWN"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        there = f" There are: {', '.join(known)}." if known else ""
        super().__init__(
            f"There is no connection factory {name!r}.{there}",
            next_step="Correct the name, or add it under Set up, Connections.",
        )


class PoolExhaustedError(IntegrationError):
    """All connections of a pool are out, and none came back in time."""

    code = "CONNECTIONS_EXHAUSTED"

    def __init__(self, name: str, most: int, seconds: float, holders: Sequence[str]) -> None:
        super().__init__(
            f"All {most} connections of {name!r} were in use for {seconds:g} s. They were taken "
            f"at {', '.join(holders)}.",
            next_step="Give them back sooner, or raise the most connections of the factory. One "
            "that was taken long ago was probably never given back.",
        )


class PoolClosedError(IntegrationError):
    """The pool was closed: its factory was changed, or its process is about to end."""

    code = "CONNECTIONS_CLOSED"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The connections of {name!r} are closed: the factory was changed since it was looked "
            "up, or this process is about to end.",
            next_step="Look the factory up each time instead of keeping it.",
        )
