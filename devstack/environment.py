"""The virtual environment with the pinned, hashed packages, installed by uv."""

import shutil
import sys
from pathlib import Path

from devstack import errors, paths, stamps, tool

REQUIREMENTS = paths.ROOT / "requirements-dev.txt"
UV_REQUIREMENTS = paths.ROOT / "devstack" / "requirements-uv.txt"
STAMP = paths.VENV / "sluice.stamp"
AMQP_REQUIREMENTS = paths.ROOT / "requirements-amqp.txt"
AMQP_STAMP = paths.VENV / "amqp.stamp"
NO_AMQP = (
    "The library for AMQP 1.0 could not be built: that needs a C compiler (on Debian and Ubuntu: "
    "apt-get install gcc libc6-dev). All but endpoints at JMS brokers works; only their tests fail."
)


def is_ready() -> bool:
    return paths.VENV_PYTHON.exists() and stamps.is_done(STAMP, _wanted())


def install() -> None:
    """Make the environment hold exactly the pinned packages.

    Raises Problem PYTHON_WITHOUT_VENV, PYTHON_UNFIT or NO_NETWORK.
    """
    # pip comes last: without it the environment was left half-made.
    if not (paths.VENV_PYTHON.exists() and (paths.VENV / "bin" / "pip").exists()):
        _make()
    uv = installer()
    options = ["--require-hashes", "--python", str(paths.VENV_PYTHON)]
    sync: list[str | Path] = [uv, "pip", "sync", *options, REQUIREMENTS]
    if not tool.run("packages", sync, environment={"UV_PYTHON_DOWNLOADS": "never"}):
        raise not_installed(tool.log_for("packages"))
    stamps.mark_done(STAMP, _wanted())
    # What is not in the list was removed, the extra as well.
    AMQP_STAMP.unlink(missing_ok=True)


def has_amqp() -> bool:
    return stamps.is_done(AMQP_STAMP, _wanted_for_amqp())


def install_amqp() -> bool:
    """Build the library for AMQP 1.0, an extra. Returns whether that could be done."""
    options = ["--require-hashes", "--no-deps", "--python", str(paths.VENV_PYTHON)]
    argv: list[str | Path] = [installer(), "pip", "install", *options, "-r", AMQP_REQUIREMENTS]
    if not tool.run("amqp", argv, environment={"UV_PYTHON_DOWNLOADS": "never"}):
        return False
    stamps.mark_done(AMQP_STAMP, _wanted_for_amqp())
    return True


def installer() -> Path:
    """Return uv, pinned like everything else and fetched once. Raises Problem NO_NETWORK."""
    folder = fetched("uv", UV_REQUIREMENTS)
    if folder is None:
        raise errors.no_network("The package installer uv", tool.log_for("uv"))
    return folder / "bin" / "uv"


def lock() -> None:
    """Compile the pinned, hashed requirements anew from the *.in files. Raises Problem."""
    uv = installer()
    for name in ("requirements", "requirements-dev", "requirements-peers"):
        # For the oldest Python that is promised and for all newer ones, whatever runs this.
        options = ["--quiet", "--generate-hashes", "--no-header", "-o", f"{name}.txt"]
        options += ["--universal", "--python-version", "3.11"]
        # The file there is is read too: what need not change keeps its version.
        if not tool.run("lock", [uv, "pip", "compile", *options, f"{name}.in"]):
            raise errors.command_failed(f"Compiling {name}.in", tool.log_for("lock"))


def fetched(name: str, requirements: Path) -> Path | None:
    """Keep hashed packages in a folder of their own, outside the environment.

    Returns the folder, None where they could not be fetched; the log of that name says why.
    """
    folder = paths.FETCHED / name
    stamp, digest = folder / "sluice.stamp", stamps.digest([requirements])
    if stamps.is_done(stamp, digest):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    pip = ("-m", "pip", "install", "--quiet", "--require-hashes")
    argv: list[str | Path] = [paths.VENV_PYTHON, *pip, "--target", folder, "-r", requirements]
    if not tool.run(name, argv):
        return None
    stamps.mark_done(stamp, digest)
    return folder


def _make() -> None:
    shutil.rmtree(paths.VENV, ignore_errors=True)
    if not tool.run("venv", [sys.executable, "-m", "venv", paths.VENV]):
        shutil.rmtree(paths.VENV, ignore_errors=True)
        raise errors.Problem(
            "PYTHON_WITHOUT_VENV",
            "This Python cannot make a virtual environment.",
            "Install its venv module (on Debian and Ubuntu: apt-get install python3-venv).",
        )


def not_installed(log: Path) -> errors.Problem:
    """Return what kept the packages from being installed, by what uv wrote into its log.

    An environment that they do not fit is removed.
    """
    said = log.read_text() if log.exists() else ""
    if "No solution found" not in said:
        return errors.no_network("The Python packages", log)
    # Else another Python would be given this one's environment.
    shutil.rmtree(paths.VENV, ignore_errors=True)
    version = ".".join(map(str, sys.version_info[:3]))
    return errors.Problem(
        "PYTHON_UNFIT",
        f"The pinned packages cannot be installed for Python {version}.",
        "Run the command again with another one, for instance: make PYTHON=/usr/bin/python3.12 "
        f"run; what the tool said is in {log}.",
    )


def _wanted_for_amqp() -> str:
    # Whatever changes the environment takes out what is not in its list.
    return stamps.digest([REQUIREMENTS, AMQP_REQUIREMENTS], _place())


def _wanted() -> str:
    return stamps.digest([REQUIREMENTS], _place())


def _place() -> str:
    """The folder of the environment: a moved checkout has scripts that point away.

    Checkouts that share one by a link must not each make it anew, without the extra of another.
    """
    return str(paths.VENV.resolve())
