"""Words of the pages for bulk runs: titles, states, stages, ends of rows, a sentence on each."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.layout.words import BADGE, badge
from crontasks.bulk import storage
from crontasks.bulk.cancelled import what_stays
from crontasks.bulk.catalogue import CATALOGUE
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.bulk.runs import ShownRun, Standing

STATES: Final[Mapping[str, tuple[str, str, str]]] = {
    BulkState.ASKED: ("azure", "…", "Waits"),
    BulkState.RUNNING: ("azure", "◆", "Running"),
    BulkState.DONE: ("green", "✓", "Done"),
    BulkState.FAILED: ("red", "✕", "Failed"),
    BulkState.CANCELLED: ("secondary", "✕", "Cancelled"),
}
SILENT: Final = ("yellow", "?", "No answer")
# Of an import; another job's own words are written with a capital.
STAGES: Final = {
    "plan": "Looking at what there is",
    "stage": "Reading and checking rows",
    "apply": "Storing all of it in one commit",
    "send": "Sending the messages",
    "write": "Writing",
    "check": "Reading back what was written",
    "choose": "Choosing what it is about",
    "judge": "Comparing each with what is known of it",
    "drop": "Removing what is kept elsewhere",
    "release": "Releasing",
}
# (tone, sign): what a preview says would become of a row; other words are shown neutrally.
ENDS: Final = {
    "stored": ("green", "✓"),
    "sent": ("green", "✓"),
    "written": ("green", "✓"),
    "changed": ("green", "✓"),
    "archived": ("green", "✓"),
    "chosen": ("green", "✓"),
    "rejected": ("red", "!"),
    "lost": ("red", "!"),
    "skipped": ("secondary", "·"),
}
FACT_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of a run in a sentence, and what a person may do about it."""

    what: str
    now: str = ""


def title_of(run: BulkRun) -> str:
    """The job of a run and what it is about, in a few words."""
    entry = CATALOGUE.get(run.job)
    if entry is None:
        return run.job.capitalize()
    files = [storage.shown(str(run.job_request.get(field) or "")) for field in entry.files]
    names = ("structure", "topic", "queue", "kind")
    about = [*files, *(str(run.job_request.get(name) or "") for name in names)]
    named = ", ".join(one for one in about if one)
    return f"{entry.title}: {named}" if named else entry.title


def stage_words(stage: str) -> str:
    return STAGES.get(stage, stage.replace("_", " ").capitalize())


def summary(shown: ShownRun) -> Summary:
    """The state of the run now."""
    run, standing = shown.run, shown.standing
    match run.state:
        case BulkState.ASKED:
            return _waiting(run)
        case BulkState.RUNNING:
            return _silent(standing) if standing.is_silent else _running(shown)
        case BulkState.DONE:
            return Summary(f"It is done: {_counted(shown)}.")
        case BulkState.FAILED:
            return _failed(run)
        case BulkState.CANCELLED:
            return _cancelled(run)
        case _:
            return Summary(str(run.state))


def stages(shown: ShownRun) -> list[tuple[str, str]]:
    """All stages of its job where the job names them, else the one it is in: words and state.

    A stage is over, current, or comes later.
    """
    standing = shown.standing
    names = standing.stages or ((standing.stage,) if standing.stage else ())
    at = names.index(standing.stage) if standing.stage in names else -1
    is_over = shown.run.state == BulkState.DONE
    return [
        (
            stage_words(name),
            "over" if is_over or place < at else "current" if place == at else "later",
        )
        for place, name in enumerate(names)
    ]


def bulk_state(shown: ShownRun) -> SafeString:
    """The badge of how a run stands."""
    if shown.standing.is_silent:
        return format_html(BADGE, *SILENT)
    return badge(STATES, shown.run.state)


def row_end(ends: str) -> SafeString:
    """The badge of what would become of a row; a word that is not known as it is."""
    tone, sign = ENDS.get(ends, ("secondary", "·"))
    return format_html(BADGE, tone, sign, ends.capitalize())


def fact_of(value: object, name: str) -> str:
    """A fact that a job reports: sizes and numbers as people read them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("bytes"):
        return str(filesizeformat(value))
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)[:FACT_CHARACTERS]
    return str(value)


def _waiting(run: BulkRun) -> Summary:
    if run.cancel_asked_at is not None:
        return Summary("It waits for the Spark driver, and is cancelled as soon as that takes it.")
    return Summary(
        "It waits for the Spark driver, which takes one run after the other.",
        "Nothing. If no run is taken at all, look whether the driver is at work.",
    )


def _running(shown: ShownRun) -> Summary:
    run, standing = shown.run, shown.standing
    if run.cancel_asked_at is not None:
        return Summary(f"It is being cancelled: its tasks are stopped. {what_stays(run)}")
    if not standing.stage:
        return Summary(
            "It has begun; the driver looks at what there is to do."
            if not shown.is_planned
            else "What it reads is planned; the first tasks begin."
        )
    if standing.stage == "stage" and standing.is_staged and not standing.stages:
        return Summary("All rows are read and checked; they are stored in one commit now.")
    return Summary(f"{stage_words(standing.stage)}.")


def _silent(standing: Standing) -> Summary:
    known = "" if standing.percent is None else f"; it was at {standing.percent} % then"
    return Summary(
        f"No answer from the driver: what is shown here is the last that is known of it{known}.",
        "The next driver goes on where this one stopped. Look whether one is at work.",
    )


def _failed(run: BulkRun) -> Summary:
    _, text, next_step = run.problem or ("", "It failed, and nobody said why.", "")
    return Summary(storage.with_short_names(text), next_step)


def _cancelled(run: BulkRun) -> Summary:
    if run.problem:
        return _failed(run)  # Somebody gave it up since.
    return Summary(
        f"It was cancelled. {what_stays(run)}",
        "Run it again: it goes on where it stopped, with what was planned.",
    )


def _counted(shown: ShownRun) -> str:
    read, sent, rejected, skipped = (one or 0 for one in shown.counts)
    parts = [f"{read:,} read", f"{sent:,} went where they should"]
    parts += [f"{rejected:,} rejected"] if rejected else []
    parts += [f"{skipped:,} skipped"] if skipped else []
    return ", ".join(parts)
