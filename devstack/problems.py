"""What can stop the stack, told in one sentence with what to do about it."""

from pathlib import Path


class Problem(Exception):  # noqa: N818 - it is told to a person, by this name
    """The stack cannot go on: `what` happened in one sentence, and the `remedy` in another."""

    def __init__(self, code: str, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.code = code
        self.what = what
        self.remedy = remedy


def python_without_venv() -> Problem:
    return Problem(
        "PYTHON_WITHOUT_VENV",
        "This Python cannot make a virtual environment.",
        "Install its venv module (on Debian and Ubuntu: apt-get install python3-venv).",
    )


def java_missing() -> Problem:
    return Problem(
        "JAVA_MISSING",
        "No Java was found, and Apache Kafka runs on Java 17 or newer.",
        "Install a Java 17 runtime (on Debian and Ubuntu: apt-get install "
        "openjdk-17-jre-headless), or let JAVA_HOME name one.",
    )


def java_too_old(found: int, where: Path) -> Problem:
    return Problem(
        "JAVA_TOO_OLD",
        f"Apache Kafka runs on Java 17 or newer and {where} is Java {found}.",
        "Install a Java 17 runtime, or let JAVA_HOME name one.",
    )


def disk_full(folder: Path, free_megabytes: int, needed_megabytes: int) -> Problem:
    return Problem(
        "DISK_FULL",
        f"Only {free_megabytes:,} MB are free where {folder} lies; "
        f"the stack needs {needed_megabytes:,} MB.",
        "Make room there, or move the checkout to a larger disk.",
    )


def port_busy(name: str, port: int, variable: str) -> Problem:
    return Problem(
        "PORT_BUSY",
        f"Port {port}, set for {name} by {variable}, is taken by another program.",
        f"Stop that program, or unset {variable} and a free port is chosen.",
    )


def no_network(wanted: str, log: Path) -> Problem:
    return Problem(
        "NO_NETWORK",
        f"{wanted} could not be fetched, and the first run needs the network for it.",
        f"Check the connection and its proxy settings, then run the command again; "
        f"what the tool said is in {log}.",
    )


def bad_checksum(names: list[str], folder: Path) -> Problem:
    return Problem(
        "BAD_CHECKSUM",
        f"Of the fetched jars {len(names)} are not the ones Sluice was tested with "
        f"({', '.join(names[:3])}).",
        f"Remove {folder} and run the command again; if it repeats, do not trust the mirror.",
    )


def did_not_start(name: str, log: Path, last_line: str) -> Problem:
    return Problem(
        "DID_NOT_START",
        f"{name} did not start; the last it said was: {last_line or 'nothing'}.",
        f"Read {log} for the reason.",
    )


def did_not_stop(name: str, pid: int) -> Problem:
    return Problem(
        "DID_NOT_STOP",
        f"{name} (process {pid}) is still there after SIGKILL.",
        "It waits for the kernel, most likely for a disk; look at the machine before going on.",
    )


def bad_switch(name: str, value: str) -> Problem:
    return Problem("BAD_SWITCH", f"{name} is {value!r}.", "Write 1 or 0, then try again.")


def command_failed(name: str, log: Path) -> Problem:
    return Problem("COMMAND_FAILED", f"{name} failed.", f"Read {log} for the reason.")


def other_postgres(found: str, folder: Path) -> Problem:
    return Problem(
        "OTHER_POSTGRES",
        f"The data in {folder} belong to PostgreSQL {found}, which is not installed here.",
        f"Install PostgreSQL {found} again, or run `make stop`, remove {folder} and lose its data.",
    )


def foreign_folder(folder: Path) -> Problem:
    return Problem(
        "FOREIGN_FOLDER",
        f"The folder {folder} should hold the database's files but belongs to somebody else.",
        "Find out whose it is, then move it away.",
    )


def no_database_user() -> Problem:
    return Problem(
        "NO_DATABASE_USER",
        "PostgreSQL refuses to run as root, and neither user postgres nor nobody exists.",
        "Run the command as an ordinary user, or add a user named postgres.",
    )


def not_set_up(wanted: str) -> Problem:
    return Problem(
        "NOT_SET_UP", f"{wanted} is not there yet.", "Run `make setup` once, then try again."
    )


def no_node() -> Problem:
    return Problem(
        "NO_NODE",
        "Neither Node.js nor its Python package could be used to fetch the console's files.",
        "Install Node.js 20 or newer with npm, then run `make setup` again.",
    )
