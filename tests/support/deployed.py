"""What an installation is started from, parsed: the Dockerfile, the compose file and the units."""

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from devstack import paths

ROOT = paths.ROOT
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name for name, service in SERVICES.items() if str(service["image"]).startswith("sluice")}
SERVERS = set(SERVICES) - OURS
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
ENV_FILES = [ROOT / "deploy/compose.env.example", ROOT / "deploy/systemd/sluice.env.example"]
PINNED = re.compile(r"[a-z0-9./-]+:\d+\.\d+(\.\d+)?[a-z0-9.-]*")
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def instructions() -> list[tuple[str, str]]:
    """(instruction, the rest) of the Dockerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", " ", text)
    return [(line.split()[0], line.split(None, 1)[1]) for line in joined.splitlines() if line]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


def command_of(service: str) -> list[str]:
    """What the container starts: the service's own command, else the image's."""
    written = SERVICES[service].get("command")
    return list(written or json.loads(of("CMD")[-1]))


def unit(file: Path) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    parsed.optionxform = str  # type: ignore[assignment,method-assign] # systemd minds the case
    parsed.read_string(file.read_text())
    return parsed


def started_by(file: Path) -> list[str]:
    words = shlex.split(unit(file)["Service"]["ExecStart"].replace("%%", "%"))
    return ["python", *words[1:]]


def kept_of(file: Path) -> dict[str, str]:
    lines = [line for line in file.read_text().splitlines() if re.match(r"[A-Z0-9_]+=", line)]
    return dict(line.split("=", 1) for line in lines)
