"""Keeps handlers from writing where the engine's transaction does not reach."""

from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn, Protocol

from django.conf import settings
from django.db import connections

from integration.handlers.failures import ForeignDatabaseError
from integration.handlers.registry import Registration


class Enrolled(Protocol):
    """Another database that takes part in the batch's commit."""

    alias: str

    def begin(self) -> None:
        """Open its transaction unless it is open. Raises OutageError."""


enrolled: Final[ContextVar[Enrolled | None]] = ContextVar("enrolled", default=None)


def guarded(handler: Registration) -> Registration:
    """The same handler, called where every statement on another alias raises, unless `enrolled`.

    Costs nothing where there is one alias only. A handler that declared that doing it again does
    no harm may send statements anywhere; others get ForeignDatabaseError.
    """
    if len(connections.settings) == 1:
        return handler

    fence = _begun if handler.at_least_once else _fenced
    hook = handler.on_exhausted
    return replace(
        handler,
        call=fence(handler.call),
        on_exhausted=None if hook is None else fence(hook),
    )


def _begun(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: object) -> Any:
        other = enrolled.get()
        if other is not None:
            other.begin()
        return function(*given)

    return call


def _fenced(function: Callable[..., Any]) -> Callable[..., Any]:
    function = _begun(function)

    def call(*given: object) -> Any:
        other = enrolled.get()
        own = {settings.SLUICE_DATABASE, None if other is None else other.alias}
        with ExitStack() as stack:
            for alias in connections:
                if alias not in own:
                    wrapper = connections[alias].execute_wrapper(partial(_refuse, alias))
                    stack.enter_context(wrapper)
            return function(*given)

    return call


def _refuse(alias: str, *_statement: object) -> NoReturn:
    raise ForeignDatabaseError(alias)
