"""Recovery of transactions over several resources: ends what processes that died have left."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from crontasks.definitions import NoParameters, crontask
from crontasks.models.notice import ABOUT_CONNECTIONS, CONNECTION, NoticeKind
from crontasks.notices import book
from crontasks.notices.condition import Condition
from crontasks.outcome import Context, Outcome
from integration.connections import FactoryRecovered, recover_each
from integration.counting import so_many
from integration.xa.decisions import decider_of

# Branches that wait for their coordinator, or for their time, are nothing that was done.
_TOLD: Final = ("commit", "rollback", "failed")


@crontask("xa_recovery", title="Recovery of branches")
class XaRecovery:
    """Commits or rolls back branches as the database decided, after their process has died.

    Started ones whose time is over are rolled back. Those that other coordinators have prepared
    are left to them; people are told of those that should have been over. So they are of a log
    that cannot be read or has lost records.
    """

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        counts: Counter[str] = Counter()
        conditions: list[Condition] = []
        for each in recover_each(context.should_stop):
            counts += each.counts
            conditions += _conditions(each)
        if not context.should_stop():
            book.keep(conditions, {NoticeKind.BRANCHES}, ABOUT_CONNECTIONS)
        for told in conditions:
            context.say(f"{told.subject}: {told.text}")
        return Outcome(counts={name: counts[name] for name in _TOLD if counts[name]})


def _conditions(each: FactoryRecovered) -> Iterator[Condition]:
    """What a person has to hear of a factory: nothing as a rule."""
    text = each.trouble
    if waiting := each.found.waiting:
        oldest = waiting[0]
        text = (
            f"{so_many(len(waiting), 'branch is', 'branches are')} prepared and should have been "
            f"over. The oldest, {oldest.xid}, was started at {oldest.started_at:%d %B %Y %H:%M} "
            f"UTC and is decided by {decider_of(oldest.xid)}. Bring that back, or decide on the "
            "page of the connection if it will not come back."
        )
    if text:
        yield Condition(NoticeKind.BRANCHES, f"{CONNECTION}{each.name}", text)
