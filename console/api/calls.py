"""A page's request as a program would make it: what is shown as “API call”."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.http import QueryDict

from sluice_cli.operations import Operation, every

ADDRESS: Final = '"$SLUICE_URL"'
HEADER: Final = '-H "Authorization: Bearer $SLUICE_TOKEN"'


@dataclass(frozen=True, slots=True)
class Call:
    """The same request twice: for curl, and for the command line."""

    curl: str
    command: str

    @property
    def text(self) -> str:
        return f"{self.curl}\n\n{self.command}"


def call_of(name: str, query: str = "", parts: Mapping[str, object] | None = None) -> Call:
    """A reading operation, named as in “failures list”, with a page's filter, urlencoded.

    `parts` are those of the address. Raises LookupError where there is no such operation.
    """
    operation = named(name)
    said = {key: str(value) for key, value in (parts or {}).items()}
    path = operation.path.format_map(said)
    address = f"{path}?{query}" if query else path
    options = [*(said[part.name] for part in operation.parts), *_options(operation, query)]
    command = shlex.join([*operation.words.split(), *options])
    return Call(f"curl {ADDRESS}{shlex.quote(address)} {HEADER}", command)


def named(name: str) -> Operation:
    """Raises LookupError."""
    for operation in every():
        if f"{operation.group} {operation.name}" == name:
            return operation
    raise LookupError(name)


def _options(operation: Operation, query: str) -> list[str]:
    given = QueryDict(query)
    known = {field.name: field.options[0] for field in operation.query}
    return [f"{known[name]}={given[name]}" for name in given if name in known]
