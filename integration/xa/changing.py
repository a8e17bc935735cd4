"""When a connection factory may change or go: what is under way is found by its settings alone."""

from django.core.exceptions import ValidationError
from django.db.models import Model

from integration.counting import so_many
from integration.errors import IntegrationError
from integration.models import ConnectionFactory
from integration.xa import decisions
from integration.xa.errors import XaTopicMissingError
from integration.xa.home import LEADING
from integration.xa.opening import branches_of


def refuse_change(row: Model) -> None:
    """Refuse to lead recovery away from what is under way; of other models nothing is asked.

    It would take the decisions for those of branches that are over, and roll back what a database
    has committed. Ask before the row is locked: to read a log may note something in it.
    Raises ValidationError, also where the log cannot be read.
    """
    stored = _stored(row)
    if stored is None:
        return
    moved = _moved(row, stored)
    if moved and (why := _hindrance(stored, "Change this")):
        raise ValidationError(dict.fromkeys(moved, why))


def removal_hindrance(row: Model) -> str:
    """Why a connection factory has to stay, as nobody else ends its branches; empty if it may go.

    Of other models nothing is asked. Ask before the row is locked, as in `refuse_change`.
    """
    stored = _stored(row)
    return "" if stored is None else _hindrance(stored, "Delete it")


def refuse_overtaken(row: Model) -> None:
    """Ask once more in the transaction of the change, which locks the row.

    Who decided meanwhile has been waited for; who decides later finds the change, and rolls back.
    Raises ValidationError.
    """
    stored = _stored(row, is_locked=True)
    moved = [] if stored is None else _moved(row, stored)
    if stored is not None and moved and (why := _decided(stored, "Change this")):
        raise ValidationError({moved[0]: why})


def removal_overtaken(row: Model) -> str:
    """As `refuse_overtaken`, for a removal: why the row has to stay; empty if it may go."""
    stored = _stored(row, is_locked=True)
    return "" if stored is None else _decided(stored, "Delete it")


def _moved(row: Model, stored: ConnectionFactory) -> list[str]:
    return [
        name for name, column in LEADING.items() if getattr(row, column) != getattr(stored, column)
    ]


def _stored(row: Model, *, is_locked: bool = False) -> ConnectionFactory | None:
    """The row as it is stored, where that is one with a log."""
    if not isinstance(row, ConnectionFactory) or row.pk is None:
        return None
    rows = ConnectionFactory.objects.select_related("provider")
    known = (rows.select_for_update(of=("self",)) if is_locked else rows).filter(pk=row.pk)
    return known.exclude(xa=ConnectionFactory.XaLog.OFF).first()


def _hindrance(stored: ConnectionFactory, act: str) -> str:
    """Why it has to stay as it is stored; empty where nothing is under way.

    `act` is what a person may do later, as a sentence begins.
    """
    try:
        count = len(branches_of(stored))
    except IntegrationError as problem:
        if _was_never_there(stored, problem):
            count = 0
        else:
            return (
                "Nobody can tell whether branches are under way. "
                f"{act} once the log can be read. {problem.code}: {problem}"
            )
    if count:
        stands = so_many(count, "branch is", "branches are")
        return f"{stands} under way. {act} once “Show branches” lists none."
    return _decided(stored, act)


def _decided(stored: ConnectionFactory, act: str) -> str:
    """Why it has to stay: what is decided may not be done yet."""
    if made := decisions.pending(stored.name):
        stands = so_many(len(made), "decision is", "decisions are")
        return f"{stands} kept for branches of this connection. {act} in a minute."
    return ""


def _was_never_there(stored: ConnectionFactory, problem: IntegrationError) -> bool:
    """Return whether the log's topic was only misspelt: nobody has seen one of that name."""
    is_missing = isinstance(problem, XaTopicMissingError)
    return is_missing and not stored.xa_log_seen.startswith(f"{stored.xa_log_topic} ")
