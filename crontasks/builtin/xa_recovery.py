"""Recovery of transactions over several resources: ends what processes that died have left."""

from typing import Final

from crontasks.definitions import NoParameters, crontask
from crontasks.outcome import Context, Outcome
from integration.connections import recover_all

# Branches that wait for their coordinator, or for their time, are nothing that was done.
_TOLD: Final = ("commit", "rollback", "failed")


@crontask("xa_recovery", title="Recovery of branches")
class XaRecovery:
    """Commits or rolls back branches as the database decided, after their process has died.

    Started ones whose time is over are rolled back. Those that other coordinators have prepared
    are left to them; the page of their connection shows them.
    """

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        counts = recover_all(context.should_stop)
        return Outcome(counts={name: counts[name] for name in _TOLD if counts[name]})
