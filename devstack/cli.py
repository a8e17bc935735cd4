"""The commands: setup, up, down, status, run, lock."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial

from devstack import beside, environment, errors, install, paths
from devstack.app import GRACE_SECONDS, App
from devstack.kafka import Kafka
from devstack.parts import SPARK, is_secured, known, wanted
from devstack.progress import say, step
from devstack.server import Server
from devstack.servers import as_left_in, in_folder, with_security
from devstack.supervise import Process

NOT_RUNNING = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command; the answer is the exit status. A Problem is two sentences."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        status: int = options.command(options)
    except errors.Problem as problem:
        print(f"\n{problem.what}\n{problem.remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped half-way; run the same command again to go on.", file=sys.stderr)
        return 130
    return status


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. What follows `run` is another program's, options included."""
    is_ours = arguments[:1] != ["run"] or arguments[1:2] in (["-h"], ["--help"])
    cut = len(arguments) if is_ours else 1
    options = _parser().parse_args(arguments[:cut])
    options.words = [*arguments[cut:]]
    return options


def set_up(options: argparse.Namespace) -> int:
    began = time.monotonic()
    install.everything(with_spark=options.spark, beside=beside.EVERY if options.beside else ())
    say(f"Set up in {time.monotonic() - began:.1f} s.")
    return 0


def lock(_asked: argparse.Namespace) -> int:
    with step("Requirements locked"):
        environment.lock()
    return 0


def up(options: argparse.Namespace) -> int:
    began = time.monotonic()
    # A slip in SAMPLE is named now, not after the set-up.
    with_spark = SPARK in [part.name for part in wanted()]
    is_with_logins = is_secured()
    more = [each for each in beside.EVERY if each.is_wanted()]
    install.everything(with_spark=with_spark and not options.servers, beside=more)
    servers = in_folder(paths.STACK, durable=False)
    if is_with_logins:
        servers = with_security(servers)
    for each in more:
        _start_with_a_line(each.in_folder(paths.STACK))
    app = App(paths.STACK, servers)
    if options.servers:
        servers.start(_start_with_a_line)
        for name, value in servers.environment.items():
            say(f"{name}={value}")
        _tell_of_kafka(servers.kafka)
        return 0
    say(app.integrations())
    servers.start(partial(_start_and_prepare, app))
    app.start()
    say(f"\nSluice runs, after {time.monotonic() - began:.0f} s: {app.login()}")
    _tell_of_kafka(servers.kafka)
    say(f"Logs are in {paths.STACK}; `make stop` stops everything, the data stay.")
    return 0


def down(_asked: argparse.Namespace) -> int:
    if not paths.STACK.exists():
        say("Nothing runs here.")
        return 0
    servers = as_left_in(paths.STACK)
    with step("Sluice's processes stopped") as under_way:
        killed = App(paths.STACK, servers).stop()
        if killed:
            names = ", ".join(killed)
            under_way.note = f"by force after {GRACE_SECONDS:.0f} s: {names}"
    servers.stop(_stop_with_a_line)
    for each in beside.EVERY:
        _stop_with_a_line(each.as_left_in(paths.STACK))
    return 0


def status(_asked: argparse.Namespace) -> int:
    """Print what runs; the exit status is 3 when something does not."""
    if not paths.STACK.exists():
        say("Nothing was started here yet; `make run` does.")
        return NOT_RUNNING
    servers = as_left_in(paths.STACK)
    app = App(paths.STACK, servers)
    rows = [(server.title, server.process, f"port {server.port}") for server in servers.each]
    rows += [(one.title, one.process, f"port {one.port}") for one in beside.running(paths.STACK)]
    rows += [(part.title, app.process(part), "") for part in known(app.environment())]
    for title, process, note in rows:
        say(f"  {title:<16}{_state(process):<18}{note:<12}{process.log}")
    return 0 if all(process.is_alive() for _, process, _ in rows) else NOT_RUNNING


def run(options: argparse.Namespace) -> int:
    """Become another program with the settings of the running stack, such as `manage.py`."""
    settings = App(paths.STACK, as_left_in(paths.STACK)).environment()
    words = options.words or ["manage.py", "help"]
    os.chdir(paths.ROOT)
    os.execve(paths.python(), [str(paths.python()), *words], settings)  # noqa: S606 - no shell


def _state(process: Process) -> str:
    if not process.is_alive():
        return "does not run"
    return f"{'ends' if process.is_ending else 'runs'} as {process.pid}"


def _tell_of_kafka(kafka: Kafka) -> None:
    for line in kafka.told():
        say(line)
    for server in beside.running(paths.STACK):
        say(server.told())


def _start_with_a_line(server: Server) -> None:
    with step(server.title) as under_way:
        server.start()
        under_way.note = f"port {server.port}"


def _start_and_prepare(app: App, server: Server) -> None:
    """Do what the database alone is needed for while the other servers still start."""
    _start_with_a_line(server)
    if server is app.servers.postgres:
        app.prepare()


def _stop_with_a_line(server: Server) -> None:
    if server.is_running():
        with step(f"{server.title} stopped") as under_way:
            if not server.stop():
                under_way.note = "by force after 10 s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="devstack", description="Runs Sluice and its real servers on this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, words in (
        ("setup", set_up, "fetch and build what the stack needs"),
        ("lock", lock, "compile the pinned requirements anew"),
        ("up", up, "set up, start everything, print the console's address"),
        ("down", down, "stop what was started"),
        ("status", status, "tell what runs"),
        ("run", run, "run Python with the stack's settings"),
    ):
        commands.add_parser(name, help=words).set_defaults(command=command)
    named = commands.choices
    spark = "also the jars of Spark's connectors"
    named["setup"].add_argument("--spark", action="store_true", help=spark)
    more = "also what `make run` starts on wish"
    named["setup"].add_argument("--beside", action="store_true", help=more)
    named["up"].add_argument("--servers", action="store_true", help="start the servers only")
    named["run"].usage = "%(prog)s manage.py ... | -m MODULE ..."
    return parser
