"""Bulk jobs by which masked values would leave, or be copied to where they are not masked."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from crontasks.bulk import storage
from crontasks.bulk.errors import BulkError
from crontasks.bulk.job_requests.masking import TELLING, refuse_choosing, rules_of
from crontasks.bulk.reach import export_loses_rules, replay_loses_rules
from integration.masking.mask import Rule
from integration.models import BulkRun, Queue
from integration.recipes import Unreadable, compile_recipe, telling_step
from integration.selectors.masking.errors import MaskedSourceError
from integration.selectors.masking.rules import any_masked, masks
from spark_jobs.archive.parameters import ArchivedKind
from spark_jobs.exports.parameters import What
from spark_jobs.storage import is_object

EXPORT: Final = "export"
REPAIR: Final = "repair"
REPLAY: Final = "replay"
ARCHIVE: Final = "archive"
REVEALING: Final = "Ask for a masked archive, or have somebody ask who may reveal masked values."
NEXT_STEP: Final = "Have somebody ask for it who may reveal masked values, with a reason."
LOSING: Final = "Masking rules hide values of these rows, and one of them is not for the target."
OTHER_TARGET: Final = f"Name a target that all of these rules are for. {NEXT_STEP}"


def refuse_masked(
    run: BulkRun, *, may_reveal: bool, reason: str, is_scheduled: bool = False
) -> None:
    """Refuse a run that would hand out masked values. Raises BulkError.

    What stays inside (a replay, a repair, an export into a queue) carries true values, each where
    it stood, and to where the same rules are: elsewhere none would find it. An archive has true
    values as well, and lies where files can be taken from; by schedule it has them where somebody
    agreed to it who may reveal, which was judged when the schedule was stored.
    """
    if hands_out(run.job, run.parameters) and not (may_reveal and reason.strip()):
        why = "Masking rules hide values of what the files would hold, and they would be unmasked."
        raise BulkError("MASKED_EXPORT", why, NEXT_STEP)
    if may_reveal:
        # What it wraps or unwraps was theirs to see: no message is left out for that.
        if run.job == REPAIR:
            run.parameters.pop("masked", None)
        return
    if run.job == ARCHIVE and not (is_scheduled or run.parameters.get("masked")):
        refuse_archive(run.parameters["kind"])
    refuse_telling(run)
    if run.job == EXPORT and run.parameters.get("target"):
        _refuse_renaming(run.parameters)
    elif run.job == REPLAY and replay_loses_rules(run.parameters):
        raise BulkError(MaskedSourceError.code, LOSING, OTHER_TARGET)


def refuse_telling(run: BulkRun) -> None:
    """Refuse what would tell by its count which rows hold a masked value. Raises BulkError.

    A look first counts as a run does, wherever the rows would go.
    """
    if run.job == EXPORT:
        refuse_choosing(run.parameters)
    elif run.job == REPAIR:
        _refuse_repair(run.parameters)
    elif run.job == REPLAY:
        _refuse_replay(run.parameters)


def hands_out(job: str, parameters: Mapping[str, Any]) -> bool:
    """Return whether files that such a run writes for people hold masked values.

    Also where a rule is there now that was not when the run was asked for.
    """
    if job != EXPORT or parameters.get("target"):
        return False
    return _leaves_out(parameters, rules_of(parameters)[0])


def refuse_going_on(run: BulkRun) -> None:
    """Refuse to let a run go on that could not be asked for by today's rules. Raises BulkError.

    For whoever may not reveal masked values, also where somebody asked for it who may.
    """
    if not any_masked(()):
        return
    step = "Ask for a new run, or have somebody do it who may reveal masked values."
    if hands_out(run.job, run.parameters):
        why = "Masking rules hide values of what its files would hold, and it would go on unmasked."
        raise BulkError("MASKED_EXPORT", why, step)
    if run.job == ARCHIVE and _masks_by_fewer(run.parameters):
        why = "There are masking rules by now that it would go on without."
        raise BulkError(MaskedSourceError.code, why, step)
    is_agreed = run.instance is not None and _agrees(run.job_request)
    refuse_masked(run, may_reveal=False, reason="", is_scheduled=is_agreed)


def _masks_by_fewer(archive: Mapping[str, Any]) -> bool:
    """Return whether a masked archive would hold what a rule hides that was not there."""
    is_masked = archive.get("masked") and archive["kind"] != ArchivedKind.RUNS
    return bool(is_masked) and _leaves_out(archive, masks().fitting([(None, None)], ()))


def _leaves_out(parameters: Mapping[str, Any], rules: Iterable[Rule]) -> bool:
    """Return whether a run masks by fewer than these rules."""
    masked = {(r["part"], r["path"], r["style"]) for r in parameters.get("masking", ())}
    return any((r.part.value, r.path, r.style.value) not in masked for r in rules)


def refuse_source(source: str) -> None:
    """Refuse to read what jobs may have written, given by its whole name. Raises BulkError.

    Files of exports and archives hold true values, and no rule is for the columns of a file. Whose
    the objects of a storage are nobody knows.
    """
    if any_masked(()) and _may_be_written_here(source):
        why = "Masking rules hide values, and files of exports, of archives and of an object "
        why += "storage may hold them unmasked."
        step = "Upload the file, or have somebody do it who may reveal masked values."
        raise BulkError(MaskedSourceError.code, why, step)


def _may_be_written_here(source: str) -> bool:
    if is_object(source):
        return True
    places = [storage.inside(name) for name in (storage.EXPORTS, storage.ARCHIVE)]
    path = Path(source)
    # A pattern or a link may lead there by another name.
    found = (file.resolve() for file in (path, *storage.files(path)))
    return any(file.is_relative_to(place) for file in found for place in places)


def refuse_archive(kind: str) -> None:
    """Refuse an archive of true values to who may not reveal them. Raises BulkError."""
    if _hides(kind):
        why = f"An archive holds true values, and masking rules hide values of {kind}."
        raise BulkError(MaskedSourceError.code, why, REVEALING)


def refuse_agreement(job: str, job_request: Mapping[str, Any]) -> None:
    """Refuse a schedule that agrees to true values to who may not reveal them. Raises BulkError.

    Also where no rule is: the schedule would outlast the day on which one is made.
    """
    if job != ARCHIVE or job_request.get("kind") == ArchivedKind.RUNS:
        return
    if _agrees(job_request):
        why = "“masked” is false: this archives true values, whatever masking rules hide."
        step = "Leave “masked” out, or have somebody store it who may reveal masked values."
        raise BulkError(MaskedSourceError.code, why, step)


def masked_by_schedule(job: str, job_request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The job request of a schedule as it is meant today.

    An archive is masked as soon as there is a rule, unless the schedule agrees to true values.
    """
    is_left_open = job == ARCHIVE and not _agrees(job_request)
    if is_left_open and _hides(str(job_request.get("kind", ""))):
        return {**job_request, "masked": True}
    return job_request


def scheduled_values(job: str, job_request: Mapping[str, Any]) -> str:
    """What a schedule archives by today's rules, as a sentence; empty where that is no question."""
    kind = str(job_request.get("kind", ""))
    if job != ARCHIVE or job_request.get("masked") or kind == ArchivedKind.RUNS:
        return ""
    if _agrees(job_request):
        return "It archives true values, whatever masking rules hide: “masked” is false."
    if _hides(kind):
        return "It archives placeholders for what masking rules hide: “masked” is not false."
    return "It archives true values until there is a masking rule, and placeholders from then on."


def _agrees(job_request: Mapping[str, Any]) -> bool:
    """Return whether it says in so many words that nothing is to be masked."""
    return job_request.get("masked") is False


def _hides(kind: str) -> bool:
    """Return whether rules hide values of what is archived: runs of cron tasks hold none."""
    return kind != ArchivedKind.RUNS and any_masked(())


def _refuse_renaming(parameters: Mapping[str, Any]) -> None:
    """Refuse an export into a queue that would take masked values to where no rule finds them."""
    if not rules_of(parameters)[0]:
        return
    if parameters["what"] == What.MESSAGES:
        # Their payloads become texts inside of documents, into which no path leads.
        why = "Tracked messages become rows, and masking rules hide values of these messages."
        step = f"Export them to files, which are masked. {NEXT_STEP}"
        raise BulkError(MaskedSourceError.code, why, step)
    if parameters["columns"]:
        why = "Columns give values other names, and masking rules hide values of these rows."
        step = f"Leave the columns out. {NEXT_STEP}"
        raise BulkError(MaskedSourceError.code, why, step)
    if export_loses_rules(parameters):
        raise BulkError(MaskedSourceError.code, LOSING, OTHER_TARGET)


def _refuse_replay(parameters: Mapping[str, Any]) -> None:
    """Refuse a replay that chooses messages by a value of theirs that is masked."""
    chosen = parameters["chosen"]
    places = Queue.objects.filter(pk=parameters["queue"]).values_list("pk", "system")
    mask = masks().joined(places, [name for name in (chosen["interface"],) if name])
    if parameters.get("retry_wrapper"):
        mask = mask.in_wrapper
    (header, asks_header, _), (path, asks_path, _) = (
        chosen[name].partition("=") for name in ("header", "path")
    )
    is_told = (chosen["key"] and mask.key is not None) or (
        (asks_header and mask.header_style(header) is not None) or (asks_path and mask.covers(path))
    )
    if is_told:
        raise BulkError(MaskedSourceError.code, TELLING, f"Choose by something else. {NEXT_STEP}")


def _refuse_repair(parameters: Mapping[str, Any]) -> None:
    """Refuse a repair whose choice or whose effect would tell masked values."""
    selection = parameters["selection"]
    if not any_masked(selection["queues"]):
        return
    if selection.get("text"):
        why = "How many messages hold a text would tell what masking rules hide of them."
        raise BulkError(MaskedSourceError.code, why, f"Choose by queue or cause. {NEXT_STEP}")
    try:
        step = telling_step(compile_recipe(parameters["recipe"]))
    except Unreadable:
        return
    if step:
        why = f"“{step}” compares or copies values, and masking rules hide values of these."
        raise BulkError(MaskedSourceError.code, why, f"Set values instead. {NEXT_STEP}")
