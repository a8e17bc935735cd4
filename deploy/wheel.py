"""The build of the wheel: refuses one without the console's style sheet and scripts."""

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT: Final = ("tabler.min.css", "htmx.min.js")


class BuiltFiles(BuildHookInterface):
    """Looks for what Node builds and git does not keep."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Raises FileNotFoundError; `version` is hatchling's word for the kind of wheel."""
        folder = Path(self.root, "console", "static", "console", "vendor")
        missing = [name for name in BUILT if not (folder / name).is_file()]
        if missing:
            message = f"{folder} lacks {', '.join(missing)}. Run `make setup` first."
            raise FileNotFoundError(message)
