"""Sluice's own processes on one machine: started after the servers, stopped before them."""

import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

from devstack import beside, errors, keys, parts, paths, ports, remembered
from devstack.artemis import USER, Artemis
from devstack.parts import PAYMENTS_SWITCH, Part
from devstack.progress import step
from devstack.servers import Servers
from devstack.supervise import Command, Process
from devstack.tool import side_by_side

ANSWERS_WITHIN_SECONDS = 60.0
SILENT_SECONDS = 10.0
# A worker lets its running Celery tasks come to their end; a batch settles or rolls back. Longer
# waits are for servers that do not answer, and being killed costs nothing but a replay.
GRACE_SECONDS = 10.0
WEB_PORT = 8000
SETTINGS = "settings.json"
TEMPORARY = "tmp"
CONNECTORS = paths.FETCHED / "spark"


class App:
    """The processes of one stack folder, on the servers of that folder."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self.folder = folder
        self.servers = servers

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._web_port()}/"

    def environment(self) -> dict[str, str]:
        """Everything Sluice's settings need, on top of this process's own environment."""
        secret = keys.read_or_make(self.folder / "keys.json")
        return {
            **os.environ,
            **self.servers.environment,
            "SLUICE_SECRET_KEY": secret["SLUICE_SECRET_KEY"],
            "SLUICE_ENCRYPTION_KEYS": secret["SLUICE_ENCRYPTION_KEYS"],
            "SLUICE_ENVIRONMENT": "development",
            "SLUICE_DEBUG": os.environ.get("SLUICE_DEBUG", "0"),
            "SLUICE_ALLOWED_HOSTS": "localhost,127.0.0.1",
            remembered.INTEGRATIONS: self._integrations(),
            "SLUICE_FILES_ROOT": str(self._folder("files")),
            "SLUICE_BULK_ROOT": str(self._folder("bulk")),
            # What a killed Spark driver leaves lies here, and is swept at the next start.
            "TMPDIR": str(self._folder(TEMPORARY)),
            "SLUICE_SPARK_JARS": str(CONNECTORS) if CONNECTORS.is_dir() else "",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            # Logs are read while the process runs.
            "PYTHONUNBUFFERED": "1",
        }

    def _folder(self, name: str) -> Path:
        """Make the folder where endpoints write files, or bulk jobs do: beside the servers' own."""
        path = (self.folder / name).resolve()
        path.mkdir(parents=True, exist_ok=True)
        return path

    def prepare(self) -> None:
        """Bring the database and the static files up to date; needs PostgreSQL, waits for Kafka.

        Raises Problem COMMAND_FAILED.
        """
        log = self.folder / "prepare.log"
        with log.open("wb") as said:
            done = subprocess.run(
                [paths.python(), "-m", "devstack.prepare"],
                stdin=subprocess.DEVNULL,
                stderr=said,
                cwd=paths.ROOT,
                env={
                    **self.environment(),
                    **self._jms(),
                    "SLUICE_ADMIN_PASSWORD": self._password(),
                },
                check=False,
            )
        if done.returncode:
            raise errors.command_failed("Bringing the database up to date", log)

    def start(self) -> None:
        """Start what is not running and return when each part works. Raises Problem.

        What runs with other settings than these is stopped first.
        """
        self._stop_what_is_outdated()
        self._sweep()
        self._choose_port()
        chosen = parts.wanted(self.environment())
        written = {part.name: self._start(part) for part in chosen}
        for part in chosen:
            with step(part.title) as under_way:
                self._wait_for(part, written[part.name])
                under_way.note = self.address if part.name == "web" else ""
        for part in chosen:
            self._fail_if_ended(part)
        keys.write_private(self.folder / "console.txt", self.login() + "\n")

    def stop(self) -> list[str]:
        """Ask all to end, beat included, and wait for what they have under way.

        Returns the titles of those that did not end in time and were killed.
        """
        ended = side_by_side([partial(self._stop, part) for part in parts.PARTS])
        return [part.title for part, in_time in zip(parts.PARTS, ended, strict=True) if not in_time]

    def integrations(self) -> str:
        """Tell a person which apps with handlers are loaded, and where the list is from."""
        names = ", ".join(name.strip() for name in self._integrations().split(",")).strip(", ")
        is_told = remembered.INTEGRATIONS in os.environ or PAYMENTS_SWITCH in os.environ
        if is_told or not self._kept():
            return f"Integrations: {names or 'none'}"
        return (
            f"Integrations: {names or 'none'}, as at the last start "
            f"({remembered.INTEGRATIONS}=… changes them)"
        )

    def process(self, part: Part) -> Process:
        return Process(part.name, self.folder)

    def login(self) -> str:
        """Tell a person where the console is and how to get in."""
        return f"{self.address}  user {keys.ADMINISTRATOR}, password {self._password()}"

    def _integrations(self) -> str:
        return parts.with_payments(remembered.integrations(self._kept(), os.environ))

    def _jms(self) -> dict[str, str]:
        """Where the JMS broker is, for the first data; nothing where none runs."""
        broker = next((s for s in beside.running(self.folder) if isinstance(s, Artemis)), None)
        if broker is None:
            return {}
        server = f"127.0.0.1:{broker.port}"
        return {"JMS_SERVER": server, "JMS_USER": USER, "JMS_PASSWORD": broker.password}

    def _kept(self) -> dict[str, str]:
        return remembered.read(self.folder / SETTINGS)

    def _settings(self) -> dict[str, str]:
        secret = keys.read_or_make(self.folder / "keys.json")
        ours = self.environment().items()
        return {k: v for k, v in ours if k.startswith("SLUICE_") and k not in secret}

    def _stop_what_is_outdated(self) -> None:
        """A process reads its settings once: what has others is stopped, to be started anew."""
        settings = self._settings()
        names = remembered.changed(self._kept(), settings)
        if names and any(self.process(part).is_alive() for part in parts.PARTS):
            with step("Stopped, to start anew") as under_way:
                self.stop()
                under_way.note = f"other settings: {', '.join(names)}"
        remembered.write(self.folder / SETTINGS, settings)

    def _sweep(self) -> None:
        """Remove temporary files of processes that were killed; nothing while one still runs."""
        if not any(self.process(part).is_alive() for part in parts.PARTS):
            shutil.rmtree(self.folder / TEMPORARY, ignore_errors=True)

    def _password(self) -> str:
        return keys.read_or_make(self.folder / "keys.json")["SLUICE_ADMIN_PASSWORD"]

    def _start(self, part: Part) -> int:
        """Start it unless it runs; return how much its log held before."""
        process = self.process(part)
        if process.is_ending:
            self._stop(part)
        if process.is_alive():
            return 0
        process.rotate_log()
        before = process.log.stat().st_size if process.log.exists() else 0
        process.spawn(self._command(part))
        return before

    def _stop(self, part: Part) -> bool:
        return self.process(part).stop(grace_seconds=GRACE_SECONDS)

    def _command(self, part: Part) -> Command:
        values = {"{web_port}": str(self._web_port()), "{files}": str(self._folder("files"))}
        words = list(part.arguments)
        for mark, value in values.items():
            words = [word.replace(mark, value) for word in words]
        return Command(
            argv=[paths.python(), *words], environment=self.environment(), folder=paths.ROOT
        )

    def _wait_for(self, part: Part, written: int) -> None:
        process = self.process(part)
        began = time.monotonic()
        while process.is_alive():
            waited = time.monotonic() - began
            if self._works(part, written):
                return
            if part.name == "web" and waited > ANSWERS_WITHIN_SECONDS:
                break
            # With a higher log level it says nothing; that it lives has to do.
            if part.name != "web" and waited > SILENT_SECONDS:
                return
            time.sleep(0.1)
        raise errors.did_not_start(part.title, process.log, process.last_line())

    def _fail_if_ended(self, part: Part) -> None:
        process = self.process(part)
        if not process.is_alive():
            raise errors.did_not_start(part.title, process.log, process.last_line())

    def _works(self, part: Part, written: int) -> bool:
        if part.name == "web":
            return _answers(self.address)
        with self.process(part).log.open("rb") as log:
            log.seek(written)
            return part.says.encode() in log.read()

    def _choose_port(self) -> None:
        web = Process("web", self.folder)
        ports.assign(
            self.folder / "ports.json",
            ["web"],
            running=["web"] if web.is_alive() else [],
            preferred={"web": WEB_PORT},
        )

    def _web_port(self) -> int:
        return ports.known(self.folder / "ports.json", ["web"])["web"] or WEB_PORT


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own http address
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
