"""An archive as a person asks for it: the cleanup's rules say what may go, the days say when."""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings

from crontasks.bulk import storage
from crontasks.cleanup.failures import FAILURES
from crontasks.cleanup.pasts import HISTORY
from crontasks.cleanup.removing import first_kept
from crontasks.cleanup.rules import Rule
from crontasks.parameters import option
from integration.selectors.masking.rules import masks
from integration.store.sessions import database_time
from spark_jobs.archive.parameters import ArchivedKind, ArchiveParameters

# Of an installation's name: so many characters that people can read, a dot, and so many digits.
READABLE: Final = 27
DIGITS: Final = 12
RULES: Final = {
    ArchivedKind.FAILURES: FAILURES,
    ArchivedKind.RUNS: next(r for r in HISTORY if r.name == "runs"),
}


@dataclass(frozen=True, kw_only=True)
class ArchiveRequest:
    """The fields of an archive in a form, a command or a schedule."""

    kind: ArchivedKind = option(
        ..., "Tracked messages by whole days, closed failures, or runs of cron tasks."
    )
    older_than_days: int = option(
        30,
        "Only what is older than that; of failures and runs only what the cleanup would remove.",
        least=1,
        most=36_500,
    )

    to: str = option(
        "",
        "The folder of an object storage that takes the archive, such as s3://bucket/archive/; "
        "empty: the shared folder.",
    )

    masked: bool = option(
        False,
        "With placeholders for what masking rules hide, and without texts that may repeat it: "
        "such messages cannot be restored. Off: true values, which needs the right to reveal. A "
        "schedule that says neither masks as soon as there is a rule.",
    )

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: the moment it judges by, and the rule of the cleanup.

        Raises BulkError NO_BULK_ROOT, BAD_STORAGE_NAME.
        """
        at = database_time()
        rule = RULES.get(self.kind)
        before = at - timedelta(days=self.older_than_days)
        if rule is None:
            before = first_kept({"at": at, "tracking_days": self.older_than_days})
        parameters: dict[str, Any] = {
            "kind": self.kind,
            "folder": storage.object_folder(self.to)
            if self.to
            else str(storage.root() / storage.ARCHIVE),
            "at": at.isoformat(),
            "before": before.isoformat(),
            "rule": rule and _rule_parameters(rule),
            "installation": _installation(),
        }
        if self.masked:
            rules = masks().fitting([(None, None)], ())
            hiding = [{"part": r.part.value, "path": r.path, "style": r.style.value} for r in rules]
            hiding.sort(key=lambda rule: sorted(rule.items()))
            parameters |= {"masked": True, "masking": hiding}
        ArchiveParameters.of(parameters)
        return parameters


def _installation() -> str:
    """Deployment and environment as one part of the name of a file, of 40 characters at most.

    People know it by its beginning. Its digits are those of both names, each for itself: no two
    installations have them in common, whatever dots and letters their names have.
    """
    names = [settings.SLUICE_DEPLOYMENT, settings.SLUICE_ENVIRONMENT]
    readable = re.sub(r"[^A-Za-z0-9_.]+", "_", ".".join(names))[:READABLE]
    digits = hashlib.sha256(json.dumps(names).encode()).hexdigest()[:DIGITS]
    return f"{readable}.{digits}"


def _rule_parameters(rule: Rule) -> dict[str, Any]:
    """The rule as the job reads it, which knows nothing of this room."""
    return {
        "table": rule.table,
        "source": rule.source,
        "condition": rule.condition(),
        "since": rule.since,
        "along": [*map(list, rule.along), *([t, column] for t, column, _ in rule.kept_apart)],
        "removals": rule.removals(),
    }
