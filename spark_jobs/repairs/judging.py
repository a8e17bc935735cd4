"""The effect of a repair's change on one message, without storing anything.

By the same code as the console's bulk edit, so that both make the same bytes.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from integration.codec import decode_headers
from integration.formats.wire import schema_id_of
from integration.recipe_use import Changed, Refused, Same, Subject, use
from integration.recipes import Misfit, compile_recipe
from integration.text_search import is_in
from spark_jobs.repairs.parameters import RepairParameters


class Verdict(StrEnum):
    """The effect on one message."""

    FITS = "FITS"  # it will be changed
    SAME = "SAME"  # it has that value already
    MISFIT = "MISFIT"  # the change cannot be made in it
    REFUSED = "REFUSED"  # changed, its structure would not take it
    EDITED = "EDITED"  # it was changed
    MOVED_ON = "MOVED_ON"  # somebody changed it since it was chosen
    WRONG_STATE = "WRONG_STATE"  # not on hold any more
    GONE = "GONE"  # not in the error table any more
    IN_WORK = "IN_WORK"  # somebody held its row for as long as was waited
    NOT_MEANT = "NOT_MEANT"  # the text that was looked for is not in it


# The columns of a Row over an item `i` and its failure `e`.
COLUMNS: Final = (
    "i.place, i.id, i.version, i.queue, e.version, e.state, e.interface, "
    "coalesce(e.edited_payload, e.payload), e.headers"
)


class Row(NamedTuple):
    """A message as it was chosen, and as it is now; what is gone has no version now."""

    place: int
    id: UUID
    version: int
    queue: int
    now: int | None
    state: str | None
    interface: str | None
    record: bytes | None
    headers: Sequence[Sequence[str | None]] | None


class Judged(NamedTuple):
    """`why` has no value of the message in it. `change` is there for what fits."""

    kind: Verdict
    why: str = ""
    change: Changed | None = None


class Judge:
    """A repair's change and rules, ready for one message after the other."""

    def __init__(self, parameters: RepairParameters) -> None:
        self._recipe = compile_recipe(parameters.recipe)
        self._rules = parameters.rules()
        self._text = parameters.selection.text
        self._schemas = {(one.queue, one.id): one.schema() for one in parameters.schemas}

    def judge(self, row: Row) -> Judged:
        """Never raises, whatever the bytes are."""
        if row.now is None:
            return Judged(Verdict.GONE)
        if row.now != row.version:
            return Judged(Verdict.MOVED_ON)
        if row.state != "HOLD":
            return Judged(Verdict.WRONG_STATE)
        headers = decode_headers(row.headers)
        if self._text and not is_in(self._text, row.record or b"", headers):
            return Judged(Verdict.NOT_MEANT)
        schema_id = schema_id_of(row.record)
        schema = None if schema_id is None else self._schemas.get((row.queue, schema_id))
        return self._changed(Subject(row.queue, row.interface or "", row.record, headers, schema))

    def _changed(self, subject: Subject) -> Judged:
        match use(self._recipe, subject, self._rules):
            case Changed() as change:
                return Judged(Verdict.FITS, change=change)
            case Same():
                return Judged(Verdict.SAME)
            case Refused(why):
                return Judged(Verdict.REFUSED, why)
            case Misfit(why):
                return Judged(Verdict.MISFIT, why)
