"""A Chromium for the tests that drive a browser: installed, Debian's, or Playwright's own."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from devstack import paths, tool

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
# Folders of Playwright's download, unless PLAYWRIGHT_BROWSERS_PATH names another.
CACHES = (".cache/ms-playwright", "Library/Caches/ms-playwright")
DOWNLOADS = (
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)
MISSING = (
    "No Chromium could be had: the tests marked `browser` do NOT run. "
    "Install one (on Debian: apt-get install chromium), then run `make setup` again."
)


def find() -> Path | None:
    """Return a Chromium on this machine, or None."""
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


def install() -> Path | None:
    """Get one by the ways this machine offers; None when none of them works."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        tool.run("apt-update", ["apt-get", "update"], environment=quiet)
        packages = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        tool.run("chromium", packages, environment=quiet)
    if find() is None:
        tool.run("chromium", [paths.python(), "-m", "playwright", "install", "chromium"])
    return find()
