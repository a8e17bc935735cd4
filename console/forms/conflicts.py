"""What a form shows when somebody else was faster: theirs beside mine."""

from django.db.models import Model
from django.http import Http404

from integration.actions import configuration
from integration.actions.problems import ChangedMeanwhileError
from integration.selectors import changes


def conflict_of(problem: ChangedMeanwhileError, mine: Model) -> dict[str, object]:
    """Context of a form's page, so that saving it again is a choice; 404 when the row is gone.

    `seen` is the stamp of what is stored now, `differing` are the fields that are not the same in
    both, `last` is the newest change in its history.
    """
    if problem.stored is None:
        raise Http404(str(problem))
    kind = mine._meta.model_name or ""
    theirs, ours = configuration.facts(problem.stored), configuration.facts(mine)
    return {
        "seen": configuration.stamp(problem.stored),
        "conflict": problem,
        "differing": [d for d in changes.differences(theirs, ours) if d.before != d.after],
        "last": next(iter(changes.history_of(kind, problem.stored.pk, 1)), None),
    }
