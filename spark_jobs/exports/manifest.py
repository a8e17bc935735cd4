"""What an export says of its files: in the manifest beside them, and in the run."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spark_jobs.fencing import Outcome
from spark_jobs.work import Work

# Its first sign hides it from readers of whole folders.
MANIFEST: Final = "_manifest.json"
# So many files are listed in a run's facts; the manifest has all.
LISTED: Final = 200
Manifest = Mapping[str, Any]
# Where the files go: no part of what is exported.
_PLACE: Final = "folder"


def manifest_of(work: Work, at: str, counted: int, files: Sequence[Mapping[str, Any]]) -> Manifest:
    """The manifest of these files: name, rows, bytes and SHA-256 of each."""
    return {
        "version": 1,
        "run": work.owned.run,
        "at": at,
        "what": {n: v for n, v in work.arguments.parameters.items() if n != _PLACE},
        "counted": counted,
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "files": files,
    }


def outcome_of(manifest: Manifest, folder: str) -> Outcome:
    """The counts and facts of the run whose files are in a folder."""
    counts = {"read": manifest["counted"], "sent": manifest["rows"], "rejected": 0, "skipped": 0}
    files = manifest["files"]
    facts = {
        "folder": folder,
        "files": len(files),
        "bytes": manifest["bytes"],
        "at": manifest["at"],
        "listed": [{"name": f["name"], "bytes": f["bytes"]} for f in files[:LISTED]],
    }
    return counts, facts
