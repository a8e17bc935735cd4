"""A page's request as a program would make it: what is shown as “API call”."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.http import QueryDict

from sluice_cli.operations import Operation, every

ADDRESS: Final = '"$SLUICE_URL"'
FAILURES: Final = "failures list"
HEADER: Final = '-H "Authorization: Bearer $SLUICE_TOKEN"'


@dataclass(frozen=True, slots=True)
class Call:
    """The same request twice: for curl, and for the command line.

    `plan` is the command that plans an operation over what a list of failures finds, else empty.
    """

    curl: str
    command: str
    plan: str = ""

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, (self.curl, self.command, self.plan)))


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
    plan = _plan(query) if name == FAILURES else ""
    return Call(f"curl {ADDRESS}{shlex.quote(address)} {HEADER}", command, plan)


def named(name: str) -> Operation:
    """Raises LookupError."""
    for operation in every():
        if operation.command == name:
            return operation
    raise LookupError(name)


def _plan(query: str) -> str:
    """What an action on all that match does; by a text in payloads there is none."""
    wanted = QueryDict(query).dict()
    if wanted.get("text"):
        return ""
    plan = named("operations plan").words.split()
    return shlex.join([*plan, "--verb=release", f"--filter={json.dumps(wanted)}"])


def _options(operation: Operation, query: str) -> list[str]:
    given = QueryDict(query)
    known = {field.name: field.options[0] for field in operation.query}
    return [f"{known[name]}={given[name]}" for name in given if name in known]
