"""Keeps handlers from writing where the engine's transaction does not reach."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from django.conf import settings
from django.db import connections

from integration.handlers.failures import ForeignDatabaseError
from integration.handlers.registry import Registration


def guarded(handler: Registration) -> Registration:
    """The same handler, called where every statement on another alias raises.

    Costs nothing where there is one alias only, or where the handler declared that doing it
    again does no harm. The handler gets ForeignDatabaseError.
    """
    if handler.at_least_once or len(connections.settings) == 1:
        return handler

    hook = handler.on_exhausted
    return replace(
        handler,
        call=_fenced(handler.call),
        on_exhausted=None if hook is None else _fenced(hook),
    )


def _fenced(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: object) -> Any:
        with ExitStack() as stack:
            for alias in connections:
                if alias != settings.SLUICE_DATABASE:
                    wrapper = connections[alias].execute_wrapper(partial(_refuse, alias))
                    stack.enter_context(wrapper)
            return function(*given)

    return call


def _refuse(alias: str, *_statement: object) -> NoReturn:
    raise ForeignDatabaseError(alias)
