"""What axe has found readable, kept in the user's cache while all that it depends on is the same.

It is of one browser, one axe, and one state of the style sheets and of the script that runs axe:
with any other it begins anew.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import console
from devstack import paths

FILE: Final = paths.cached("axe") / "looks"
# Some of what is remembered holds numbers of rows, and is not met with again.
MANY: Final = 10_000
STYLES: Final = Path(console.__file__).parent / "static" / "console"


class Looks:
    """Hashes of what was fine, of earlier runs and of this one."""

    def __init__(self, file: Path = FILE) -> None:
        self.file = file
        self.known: set[str] = set()
        self._met: set[str] = set()
        self._digest = ""

    def recall(self, *told: str) -> None:
        """Read what earlier runs left, if it is of these texts and of the same style sheets."""
        if self._digest:
            return
        sheets = sorted([*STYLES.glob("*.css"), *STYLES.glob("*/*.css")])
        styles = [sheet.read_text() for sheet in sheets]
        self._digest = hashlib.sha256("\0".join([*told, *styles]).encode()).hexdigest()
        digest, *kept = self.file.read_text().split("\n") if self.file.exists() else [""]
        if digest == self._digest:
            self.known.update(kept)

    def keep(self, met: Iterable[str]) -> None:
        """Add what a look has met with, known before or not."""
        new = set(met) - self._met
        if not new:
            return
        self._met |= new
        fresh = not new <= self.known
        self.known |= new
        if fresh:
            kept = self.known if len(self.known) <= MANY else self._met
            beside = self.file.with_name(f"looks-{os.getpid()}")
            beside.write_text("\n".join([self._digest, *sorted(kept)]))
            beside.replace(self.file)
