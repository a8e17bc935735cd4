"""Lets a test log and say any text: one with half a character (a lone surrogate) ends its tester,
for reports go to the controller as UTF-8. It is shown as its escape.
"""

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    return _in_utf8((yield))


def _in_utf8(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_in_utf8(name): _in_utf8(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_in_utf8(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_in_utf8(part) for part in value)
    return value
