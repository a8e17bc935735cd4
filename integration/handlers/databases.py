"""Keeps handlers from writing where the engine's transaction does not reach."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final, NoReturn

from django.conf import settings
from django.db import connections

from integration.handlers.failures import ForeignDatabaseError
from integration.handlers.registry import Registration

_NOTHING: Final = nullcontext()


def guard_other_databases(*, at_least_once: bool) -> AbstractContextManager[None]:
    """While it is open every statement on another alias raises ForeignDatabaseError.

    Costs nothing where there is one alias only, or where the handler declared that doing it
    again does no harm.
    """
    if at_least_once or len(connections.settings) == 1:
        return _NOTHING
    return _guarded()


def guarded(found: Registration) -> Registration:
    """The same handler, called under the guard where it needs one."""
    if found.at_least_once or len(connections.settings) == 1:
        return found

    def call(messages: object) -> object:
        with guard_other_databases(at_least_once=False):
            return found.call(messages)

    return replace(found, call=call)


@contextmanager
def _guarded() -> Iterator[None]:
    with ExitStack() as stack:
        for alias in connections:
            if alias != settings.SLUICE_DATABASE:
                stack.enter_context(connections[alias].execute_wrapper(_refusal(alias)))
        yield


def _refusal(alias: str) -> Callable[..., Any]:
    def refuse(*_statement: object) -> NoReturn:
        raise ForeignDatabaseError(alias)

    return refuse
