"""`sluice GROUP COMMAND …`: every operation of the API is a command.

Exit codes: 0 = done, 1 = refused, or a check or a test did not end well, 2 = the command line is
wrong, or a plan of a configuration has changes (as with `manage.py config`), 3 = nobody answers.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from sluice_cli import asking, showing, steps
from sluice_cli.asking import Connection, NotConnectedError, RefusedError, Request
from sluice_cli.operations import NEXT, PLACED, Field, Operation, every

REFUSED: Final = 1
CHANGES: Final = 2
UNREACHABLE: Final = 3
# A check that ends otherwise has found, or cannot say, why the message would not go through.
GOOD_ENDINGS: Final = frozenset({"APPLIED", "SUPERSEDED", "READABLE"})
# Answers that say how it stands with what was asked about; the exit code says it, too.
VERDICTS: Final[Mapping[str, Callable[[Mapping[str, Any]], int]]] = {
    "failures check": lambda answer: 0 if answer["ending"] in GOOD_ENDINGS else REFUSED,
    "endpoints test": lambda answer: 0 if answer["is_good"] else REFUSED,
    "configuration plan": lambda answer: CHANGES if answer["steps"] else 0,
}
# Configuration files: what their steps are.
STEPS: Final[Mapping[str, str]] = {
    "configuration plan": "to be done",
    "configuration apply": "done",
}
TYPES: Final = {"integer": click.INT, "number": click.FLOAT}
HELP: Final = (
    "What a person does in the console of Sluice, from a terminal or a pipeline. SLUICE_URL is the "
    "console's address; SLUICE_TOKEN, or the file that SLUICE_TOKEN_FILE names, is a personal "
    "token. A value that begins with @ is read from the file of that name."
)


def built() -> click.Group:
    """The command line, with a group for each room of the API."""
    root = click.Group("sluice", help=HELP)
    for operation in every():
        group = root.commands.get(operation.group)
        if not isinstance(group, click.Group):
            group = click.Group(operation.group, help=f"Commands about {operation.group}.")
            root.add_command(group)
        group.add_command(_command(operation))
    return root


def run() -> None:
    """What is installed as `sluice`."""
    built()()


def _command(operation: Operation) -> click.Command:
    options: list[click.Parameter] = [click.Argument([part.name]) for part in operation.parts]
    if operation.file:
        options.append(click.Argument(["file"], type=_FILE))
    options += [_option(field) for field in (*operation.query, *operation.body)]
    options.append(click.Option(["--json", "as_json"], is_flag=True, help="The answer as JSON."))
    if operation.place:
        every_page = "Every page of the list."
        options.append(click.Option(["--all", "every_page"], is_flag=True, help=every_page))
    if operation.acts:
        key = "Idempotency key; else one is drawn."
        options.append(click.Option(["--key", "idempotency_key"], default="", help=key))
    return click.Command(
        operation.name,
        callback=_callback(operation),
        params=options,
        help=f"{operation.text}\n\nNeeds the right to: {', '.join(operation.rights)}.",
    )


_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _option(field: Field) -> click.Option:
    names = [*field.options, field.name]
    if field.kind == "boolean":
        no = f"--no-{field.options[0].removeprefix('--')}"
        return click.Option([f"{field.options[0]}/{no}", field.name], default=None, help=field.text)
    kind: Any = (
        click.Choice(field.choices) if field.choices else TYPES.get(field.kind, click.STRING)
    )
    text = f"{field.text} (JSON)".strip() if field.kind == "json" else field.text
    return click.Option(names, type=kind, required=field.is_required, help=text)


def _callback(operation: Operation) -> Callable[..., None]:
    def called(*, as_json: bool, **given: Any) -> None:
        context = click.get_current_context()
        try:
            connection = context.obj or asking.connected()
            code = _carry_out(connection, _request(operation, given), given, as_json=as_json)
            context.exit(code)
        except NotConnectedError as problem:
            click.echo(str(problem), err=True)
            context.exit(UNREACHABLE)
        except RefusedError as refusal:
            click.echo(showing.problem(refusal.problem), err=True)
            context.exit(REFUSED)

    return called


def _request(operation: Operation, given: dict[str, Any]) -> Request:
    return Request(
        operation,
        {part.name: given[part.name] for part in operation.parts},
        _values(operation.query, given),
        _values(operation.body, given),
        given.get("file"),
        given.get("idempotency_key") or "",
    )


def _carry_out(
    connection: Connection, request: Request, given: dict[str, Any], *, as_json: bool
) -> int:
    """Ask and tell. Returns the exit code."""
    if given.get("every_page"):
        for page in connection.pages(request):
            _tell_rows(page, as_json=as_json)
        return 0
    response = connection.answer(request)
    if "json" not in response.headers.get("Content-Type", ""):
        sys.stdout.buffer.write(response.content)
        return 0
    answer, command = response.json(), request.operation.command
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
    elif command in STEPS:
        click.echo(steps.told(answer["steps"], STEPS[command]))
    else:
        _tell(answer)
    return VERDICTS[command](answer) if command in VERDICTS else 0


def _tell_rows(page: dict[str, Any], *, as_json: bool) -> None:
    """One page of many."""
    rows = page[next(iter(page))]
    if not as_json:
        click.echo(showing.table(rows))
    for row in rows if as_json else ():
        # One line a row: what comes next reads it while more is fetched.
        click.echo(json.dumps(row, ensure_ascii=False))


def _tell(answer: dict[str, Any]) -> None:
    listed = showing.list_in(answer)
    if listed is None:
        click.echo(showing.facts(answer))
        return
    name, rows = listed
    click.echo(showing.table(rows))
    is_page = NEXT in answer
    rest = {other: value for other, value in answer.items() if other not in {name, *PLACED}}
    if any(showing.has_value(value) for value in rest.values()):
        # A page's table is read by programs, too.
        click.echo(showing.facts(rest), err=is_page)
    if left := showing.left_out(rows):
        click.echo(f"Left out: {', '.join(left)} (--json has them).", err=True)
    if answer.get(NEXT) is not None:
        click.echo("There are more: use --all.", err=True)


def _values(fields: tuple[Field, ...], given: dict[str, Any]) -> dict[str, Any]:
    """What was said, as the API takes it; what was not said has the API's own default."""
    said = {field: given.get(field.name) for field in fields}
    return {field.name: _value(field, value) for field, value in said.items() if value is not None}


def _value(field: Field, value: Any) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        try:
            value = Path(value[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise click.BadParameter(
                f"{value[1:]} cannot be read.", param_hint=field.name
            ) from problem
    if field.kind != "json":
        return value
    try:
        return json.loads(value)
    except ValueError as problem:
        raise click.BadParameter("This is not JSON.", param_hint=field.options[0]) from problem
