"""Servers that `make run` starts on wish, beside those that Sluice cannot do without."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from devstack import parts, ports
from devstack.artemis import Artemis
from devstack.registry import Registry
from devstack.supervise import Process


class Beside(NamedTuple):
    """One of them: `make run SWITCH=1` wants it, and its jars have a name in ivy.xml."""

    switch: str
    jars: str
    server: type[Registry | Artemis]

    def is_wanted(self, variables: Mapping[str, str] = os.environ) -> bool:
        """Raises Problem BAD_SWITCH."""
        return parts.is_switched_on(self.switch, variables)

    def in_folder(self, folder: Path) -> Registry | Artemis:
        """Describe the one that lives in `folder`, ready to be started; chooses its port."""
        name = self.server.name
        alive = [name] if Process(name, folder).is_alive() else []
        assigned = ports.assign(folder / "ports.json", [name], running=alive)
        return self.server(folder, assigned[name], durable=False)

    def as_left_in(self, folder: Path) -> Registry | Artemis:
        """Describe the one that was started in `folder`, to ask after it or to stop it."""
        name = self.server.name
        return self.server(folder, ports.known(folder / "ports.json", [name])[name], durable=False)


EVERY = (
    Beside("REGISTRY", "registry", Registry),
    Beside("JMS", "artemis", Artemis),
)


def running(folder: Path) -> list[Registry | Artemis]:
    """Those that run there."""
    return [one for each in EVERY if (one := each.as_left_in(folder)).is_running()]
