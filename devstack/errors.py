"""Problems that stop the stack, in one sentence with what to do about it."""

from pathlib import Path


class Problem(Exception):  # noqa: N818 - it is shown to a person, by this name
    """The stack cannot go on: `what` happened in one sentence, and the `remedy` in another."""

    def __init__(self, code: str, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.code = code
        self.what = what
        self.remedy = remedy


def no_network(wanted: str, log: Path) -> Problem:
    return Problem(
        "NO_NETWORK",
        f"{wanted} could not be fetched, and the first run needs the network for it.",
        f"Check the connection and its proxy settings, then run the command again; "
        f"what the tool said is in {log}.",
    )


def did_not_start(name: str, log: Path, last_line: str) -> Problem:
    return Problem(
        "DID_NOT_START",
        f"{name} did not start; the last it said was: {last_line or 'nothing'}.",
        f"Read {log} for the reason.",
    )


def command_failed(name: str, log: Path) -> Problem:
    return Problem("COMMAND_FAILED", f"{name} failed.", f"Read {log} for the reason.")


def not_set_up(wanted: str) -> Problem:
    return Problem(
        "NOT_SET_UP", f"{wanted} is not there yet.", "Run `make setup` once, then try again."
    )
