"""A Chromium for the tests that drive a browser: installed, Debian's, or Playwright's own.

Best is its headless shell: it draws the same pages, and without toolbar, extensions and updates a
new page costs a quarter of the processor time.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from devstack import paths, tool

SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
# Folders of Playwright's download, unless PLAYWRIGHT_BROWSERS_PATH names another.
CACHES = (".cache/ms-playwright", "Library/Caches/ms-playwright")
DOWNLOADS = (
    "chromium_headless_shell-*/chrome-*/*headless*shell",
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)
MISSING = (
    "No Chromium could be had: the tests marked `browser` do NOT run. "
    "Install one (on Debian: apt-get install chromium), then run `make setup` again."
)


# A machine without a network shall not wait for one.
PATIENCE = ("-o", "Acquire::http::Timeout=10", "-o", "Acquire::Retries=1")


def find() -> Path | None:
    """Return a Chromium on this machine, its headless shell if there is one, or None."""
    for name in NAMES:
        program = shutil.which(name)
        if program:
            return Path(program)
    for place in PLACES:
        if Path(place).exists():
            return Path(place)
    for cache in _caches(os.environ):
        for pattern in DOWNLOADS:
            for downloaded in sorted(cache.glob(pattern), reverse=True):
                return downloaded
    return None


def _caches(variables: Mapping[str, str]) -> list[Path]:
    named = variables.get("PLAYWRIGHT_BROWSERS_PATH", "")
    return [Path(named)] if named else [Path.home() / cache for cache in CACHES]


def wants_installation() -> bool:
    """Return True when there is none, or when the headless shell was never asked for here."""
    program = find()
    return program is None or ("headless" not in program.name and not _tried().exists())


def install() -> Path | None:
    """Get one by the ways this machine offers; None when none of them works."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        tool.run("apt-update", ["apt-get", *PATIENCE, "update"], environment=quiet)
        for package in (SHELL, "chromium"):
            if find() is None or package == SHELL:
                packages = ["apt-get", *PATIENCE, "install", "-y", "--no-install-recommends"]
                tool.run(package, [*packages, package], environment=quiet)
    if find() is None:
        download = ("-m", "playwright", "install", "--only-shell", "chromium")
        tool.run("playwright", [paths.python(), *download])
    _tried().touch()
    return find()


def _tried() -> Path:
    return paths.FETCHED / "chromium.tried"
