"""The command line `sluice`, in this process, at this installation."""

from collections.abc import Callable

import httpx
from click.testing import CliRunner, Result

from sluice_cli.asking import Connection
from sluice_cli.main import built
from tests.support.operator_api import Program, application

Sluice = Callable[..., Result]


def through(transport: httpx.BaseTransport, program: Program) -> Sluice:
    """The command line of a program, whose requests take this way."""
    headers = {"Authorization": f"Bearer {program.token}"}
    client = httpx.Client(transport=transport, base_url="http://sluice", headers=headers)

    def sluice(*words: str) -> Result:
        connection = Connection(client, wait=lambda _: None)
        return CliRunner().invoke(built(), words, obj=connection, catch_exceptions=False)

    return sluice


def a_command_line(program: Program) -> Sluice:
    return through(httpx.WSGITransport(app=application()), program)
