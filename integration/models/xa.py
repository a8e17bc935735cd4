"""Transactions over several resources: branches whose log is here, and what was decided here."""

from django.db import models

from integration.models.connection_factory import ConnectionFactory
from integration.models.fields import known_states
from integration.policy.states import BranchState


class XaBranch(models.Model):
    """A branch of a factory whose log of transactions is in the database.

    `attempt` names the delivery that was begun last; while the row is DELIVERING it alone says
    whose word counts. `before` and `outcome` are what the row was and what it will be, "" for gone.
    """

    mark = models.CharField(max_length=32, primary_key=True)
    factory = models.ForeignKey(ConnectionFactory, on_delete=models.PROTECT, related_name="+")
    xid = models.CharField(max_length=300)
    state = models.CharField(
        max_length=12, choices=[(each.value, each.value) for each in BranchState]
    )
    before = models.CharField(max_length=12, default="", db_default="")
    outcome = models.CharField(max_length=12, default="", db_default="")
    attempt = models.CharField(max_length=32, default="", db_default="")
    owner = models.CharField(max_length=300)
    side_partition = models.IntegerField()
    first_offset = models.BigIntegerField()
    last_offset = models.BigIntegerField()
    messages = models.IntegerField()
    started_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["factory", "xid"], name="one_xa_branch_per_xid"),
            known_states(BranchState, "xa_branch_state_known"),
        ]

    def __str__(self) -> str:
        return self.xid


class XaDecision(models.Model):
    """The database has committed what belongs to a branch: the branch is to be committed, too.

    Written in the very transaction that it tells of, and removed when the branch is over.
    """

    xid = models.CharField(max_length=300, primary_key=True)
    factory = models.CharField(max_length=60)
    decided_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.xid
