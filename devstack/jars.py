"""Fetches jars with the Ivy that PySpark carries, and keeps only those it knows by checksum."""

import fcntl
import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack import errors, java, paths, stamps, tool

LISTS = paths.ROOT / "devstack" / "jars"
CHECKSUMS = LISTS / "jars.sha256"
TITLES = {
    "kafka": "The jars of Apache Kafka",
    "spark": "The jars of Spark's connectors",
    "registry": "The schema registry",
    "artemis": "The JMS broker",
}
# What is fetched as one archive lies unpacked in its folder.
ARCHIVE = ".tar.gz"


def is_ready(configuration: str) -> bool:
    folder = paths.FETCHED / configuration
    return folder.exists() and stamps.is_done(_stamp(configuration), _wanted(configuration))


def fetch(configuration: str) -> None:
    """Fetch one configuration of ivy.xml into `.lib/<configuration>`. Raises Problem.

    The folder appears whole or not at all; a jar with another checksum than the locked one, one
    too many or one too few is refused.
    """
    partial = paths.FETCHED / f"{configuration}.new"
    shutil.rmtree(partial, ignore_errors=True)
    log_name = f"jars-{configuration}"
    with cache_of(configuration) as cache:
        if not tool.run(log_name, ivy_command(configuration, cache, partial)):
            raise errors.no_network(TITLES[configuration], tool.log_for(log_name))
    wrong = differences(checksums(configuration), partial)
    if wrong:
        raise errors.Problem(
            "BAD_CHECKSUM",
            f"Of the fetched jars {len(wrong)} are not the ones Sluice was tested with "
            f"({', '.join(wrong[:3])}).",
            f"Remove {cache} and run the command again; if it repeats, do not trust the mirror.",
        )
    _unpack(partial)
    folder = paths.FETCHED / configuration
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
    stamps.mark_done(_stamp(configuration), _wanted(configuration))


@contextmanager
def cache_of(configuration: str) -> Iterator[Path]:
    """Keep to itself the folder in which Ivy has what it fetched of a configuration."""
    cache = paths.cached(f"ivy/{configuration}")
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache


def ivy_command(configuration: str, cache: Path, folder: Path) -> list[str | Path]:
    ivy = paths.in_packages("pyspark/jars/ivy-*.jar")
    if ivy is None:
        raise errors.not_set_up("PySpark, which carries the tool that fetches jars,")
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    return [
        java.find(),
        f"-Divy.cache.dir={cache}",
        "-jar",
        ivy,
        *("-settings", LISTS / "ivysettings.xml", "-ivy", LISTS / "ivy.xml"),
        *("-confs", configuration, "-retrieve", pattern),
        # Without these types the jars packed as OSGi bundles would be left out.
        *("-types", "jar", "bundle", "maven-plugin", "tar.gz", "-warn"),
    ]


def checksums(configuration: str) -> dict[str, str]:
    """Read the locked SHA-256 of each jar of a configuration, by file name."""
    rows = (row.split(maxsplit=1) for row in CHECKSUMS.read_text().splitlines())
    named = ((Path(name.strip()), checksum) for checksum, name in rows)
    return {path.name: checksum for path, checksum in named if path.parent.name == configuration}


def differences(locked: dict[str, str], folder: Path) -> list[str]:
    """List the jars that are missing, unknown or not what was locked."""
    files = [*folder.glob("*.jar"), *folder.glob(f"*{ARCHIVE}")]
    jars = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    names = locked.keys() | jars.keys()
    return sorted(name for name in names if locked.get(name) != jars.get(name))


def _stamp(configuration: str) -> Path:
    return paths.FETCHED / f"{configuration}.stamp"


def _wanted(configuration: str) -> str:
    """Tell one configuration by its checksums: the others are not fetched anew with it."""
    return stamps.digest([], *(f"{c} {name}" for name, c in checksums(configuration).items()))


def _unpack(folder: Path) -> None:
    for archive in folder.glob(f"*{ARCHIVE}"):
        with tarfile.open(archive) as packed:
            # Older interpreters know no filter; what is in it is what was locked.
            if hasattr(tarfile, "data_filter"):
                packed.extractall(folder, filter="data")
            else:
                packed.extractall(folder)  # noqa: S202 - as above
        archive.unlink()
