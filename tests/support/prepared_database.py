"""PostgreSQL with the test database in it, as the migrations leave that: made once, then copied.

`python -m tests.support.prepared_database FOLDER` makes it: the data directory of a server that was
stopped. Who needs one first lets it be made, the others wait for that; it is kept in the user's
cache for as long as nothing changes that decides what is in it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import django
from django.conf import settings
from django.db import connections

from devstack import paths
from devstack.accounts import own_folder
from devstack.overriding import override
from devstack.postgres import Postgres
from devstack.postgres_programs import programs_for
from devstack.servers import in_folder
from devstack.supervise import Process

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = paths.cached("test-databases")
# Of so many states of the code; each takes some 100 MB.
MOST: Final = 3
# Tables, rights and roles, what is shipped, and whose database it is.
DECIDING: Final = (
    "*/migrations/*.py",
    "*/models.py",
    "*/models/*.py",
    "*/apps.py",
    "config/*.py",
    "sluice/*.py",
    "console/layout/access.py",
    "console/people/accounts.py",
    "crontasks/copies.py",
    "crontasks/instances/registration.py",
    "devstack/postgres*.py",
    "requirements.txt",
    "tests/support/prepared_database.py",
    "tests/support/settings.py",
    "tests/support/world/*.py",
)


class PreparedPostgres(Postgres):
    """The server of devstack, whose data are a copy of what was made before."""

    has_database = False

    @override
    def prepare(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            self.has_database = self._copy()
        super().prepare()

    def _copy(self) -> bool:
        with _lock():
            kept = KEPT / self._key()
            if not kept.exists() and not _made(kept):
                # Whoever sets the database up in the long way is told what is wrong.
                return False
            kept.touch()
            own_folder(self.data.parent, self.account)
            half = self.data.parent / "data.new"
            shutil.rmtree(half, ignore_errors=True)
            # Keeps the owner, who is another one where root runs the tests.
            subprocess.run(["cp", "-a", kept, half], check=True)
            half.replace(self.data)
            return True

    def _key(self) -> str:
        """Return what stands for all that decides what is in the database."""
        programs = programs_for(self.data, self.account)
        # A database has partitions for the days from its first one on.
        today = time.strftime("%Y-%m-%d", time.gmtime())
        facts = f"{programs.folder} {programs.major} {today} {_variables()}"
        said = hashlib.sha256(facts.encode())
        for pattern in DECIDING:
            for path in sorted(ROOT.glob(pattern)):
                said.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
        return said.hexdigest()[:16]


def use(postgres: Any) -> None:
    """Let Django take the database that is there already, if one is."""
    if getattr(postgres, "has_database", False):
        connections["default"].creation.create_test_db = _taken  # type: ignore[method-assign]


def _taken(**_: Any) -> str:
    connection = connections["default"]
    name: str = connection.creation._get_test_db_name()
    connection.close()
    settings.DATABASES["default"]["NAME"] = name
    connection.settings_dict["NAME"] = name
    return name


def _variables() -> list[tuple[str, str]]:
    """Return the settings that are written into a new database, among others."""
    ours = ((name, value) for name, value in os.environ.items() if name.startswith("SLUICE_"))
    return sorted((name, value) for name, value in ours if not name.endswith(("URL", "BOOTSTRAP")))


@contextmanager
def _lock() -> Iterator[None]:
    """Held by one tester at a time."""
    with (KEPT / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _made(kept: Path) -> bool:
    """Make it in a process of its own: this one's settings are those of its own server."""
    with suppress(FileNotFoundError):
        folders = [path for path in KEPT.iterdir() if path.is_dir()]
        for old in sorted(folders, key=lambda path: path.stat().st_mtime)[: 1 - MOST]:
            shutil.rmtree(old)
    words = [sys.executable, "-m", "tests.support.prepared_database", str(kept)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
    return done.returncode == 0


def main() -> None:
    """Set up the database on a server of its own, and keep the data of that."""
    kept = Path(sys.argv[1])
    half = kept.with_name(f"{kept.name}.new")
    shutil.rmtree(half, ignore_errors=True)
    # Read by the sweep of tests.support.servers, if this process is killed.
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    Process("owner", folder).remember(os.getpid())
    # The database runs as another user when the tests run as root, and has to come through.
    folder.chmod(0o755)
    postgres = in_folder(folder, durable=False).postgres
    try:
        postgres.start()
        os.environ["SLUICE_DATABASE_URL"] = postgres.url
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.support.settings"
        django.setup()
        connections["default"].creation.create_test_db(verbosity=0, serialize=False)
        connections.close_all()
        assert postgres.stop(), "what did not end in good order cannot be copied"
        subprocess.run(["cp", "-a", postgres.data, half], check=True)
    finally:
        postgres.kill()
        postgres.discard()
        shutil.rmtree(folder, ignore_errors=True)
    half.replace(kept)


if __name__ == "__main__":
    main()
