"""Finds a Java runtime that Apache Kafka runs on."""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from devstack import errors, tool

OLDEST_MAJOR = 17


def find(candidates: Iterable[Path] | None = None) -> Path:
    """Return the first new enough `java` of the candidates, by default the machine's.

    Raises Problem JAVA_MISSING or JAVA_TOO_OLD.
    """
    newest = 0
    where = Path("java")
    for candidate in _candidates() if candidates is None else candidates:
        major = version_of(candidate)
        if major >= OLDEST_MAJOR:
            return candidate
        if major > newest:
            newest, where = major, candidate
    if newest:
        raise errors.Problem(
            "JAVA_TOO_OLD",
            f"Apache Kafka runs on Java 17 or newer and {where} is Java {newest}.",
            "Install a Java 17 runtime, or let JAVA_HOME name one.",
        )
    raise errors.Problem(
        "JAVA_MISSING",
        "No Java was found, and Apache Kafka runs on Java 17 or newer.",
        "Install a Java 17 runtime (on Debian and Ubuntu: apt-get install "
        "openjdk-17-jre-headless), or let JAVA_HOME name one.",
    )


def version_of(java: Path) -> int:
    """Ask a `java` program for its major version; 0 when it is none or cannot say."""
    return parse_version(tool.said_by(java, "-version"))


def parse_version(text: str) -> int:
    """Read the major version out of `java -version`.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not match:
        return 0
    major = int(match.group(1))
    # Up to Java 8 the versions were called 1.x.
    return int(match.group(2) or 0) if major == 1 else major


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME", "")
    on_path = shutil.which("java")
    programs = [Path(home, "bin", "java")] if home else []
    if on_path:
        programs.append(Path(on_path))
    # Debian's and macOS's own places, when neither of the above is new enough.
    programs += sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)
    return programs
