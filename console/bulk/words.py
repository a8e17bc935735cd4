"""How pages speak of bulk runs: titles, states, stages, ends of rows, and one sentence on each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crontasks.bulk import storage
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
# Of jobs that do a part after another; all others undo what they began.
CANCELLED: Final = {
    "archive": "It was cancelled. What had been archived and removed here by then stays so.",
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


@dataclass(frozen=True, slots=True)
class Summary:
    """What happens to a run in a sentence, and what a person may do about it."""

    what: str
    now: str = ""


def title_of(run: BulkRun) -> str:
    """What a run does, in a few words: the job and what it is about."""
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
    """What happens to it now."""
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
            return Summary(
                CANCELLED.get(run.job, "It was cancelled, and nothing of it counts."),
                "Run it again: it goes on where it stopped, with what was planned.",
            )
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
        return Summary("It is being cancelled: its tasks are stopped, and nothing of it counts.")
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


def _counted(shown: ShownRun) -> str:
    read, sent, rejected, skipped = (one or 0 for one in shown.counts)
    parts = [f"{read:,} read", f"{sent:,} went where they should"]
    parts += [f"{rejected:,} rejected"] if rejected else []
    parts += [f"{skipped:,} skipped"] if skipped else []
    return ", ".join(parts)
