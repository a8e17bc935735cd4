"""The owner of this database: a copy accepts and does nothing until a person lets it act."""

import time
from dataclasses import dataclass
from typing import ClassVar, Final

from django.conf import settings

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.transaction import short_transaction
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.models import Deployment, OutboxRow, RelayLease
from integration.policy.states import OutboxState
from integration.store import deployments
from integration.store.deployments import Standing
from integration.store.sessions import django_connection

# Every request asks whether it may be accepted; the answer changes once in years.
KNOWN_SECONDS: Final = 1.0


class NotOursError(IntegrationError):
    """The database belongs to another installation; that is decided first."""

    code: ClassVar[str] = "COPIED_DATABASE"

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"This database belongs to {owner}, so nothing is read, sent or accepted.",
            next_step="If this copy is meant to act, adopt it first: `manage.py adopt_database`.",
        )


class RestoredDatabaseError(IntegrationError):
    """The database went back, and what that means was not looked at yet."""

    code: ClassVar[str] = "RESTORED_DATABASE"

    def __init__(self) -> None:
        super().__init__(
            "The database of this installation was restored, so nothing is accepted for the "
            "moment; nothing was stored.",
            next_step="Send it again later, with the same Idempotency-Key.",
        )


class NothingToAdoptError(IntegrationError):
    """The database belongs to this installation already, or nobody has set it up."""

    code: ClassVar[str] = "NOTHING_TO_ADOPT"

    def __init__(self, standing: Standing) -> None:
        if standing.environment is None:
            text = "There is no note of whose this database is."
            step = "Run `manage.py migrate`, which sets it up."
        else:
            text, step = "This database belongs to this installation already.", "Nothing to do."
        super().__init__(text, next_step=step)


class TwinRunningError(IntegrationError):
    """Another database may act under the same deployment name: nobody said that it does not."""

    code: ClassVar[str] = "TWIN_MAY_RUN"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"This is a copy, and the database it was made of may still act as {name}: their "
            "relays would fence each other, and both would read the same queues.",
            next_step="Give this installation a SLUICE_DEPLOYMENT of its own. If this database "
            "replaces the other one for good, confirm that nothing runs on the other any more.",
        )


@dataclass(frozen=True, slots=True)
class Adoption:
    """The changes that adopting would make; pages and commands show them before they ask.

    `needs_word`: a twin of the same name may be alive. `stamped` outgoing messages are in a batch
    under the name that was; `is_renamed` says whether that name changes.
    """

    from_environment: str
    from_name: str
    to_environment: str
    to_name: str
    stamped: int
    pending: int
    is_copy: bool

    @property
    def is_renamed(self) -> bool:
        return self.from_name != self.to_name

    @property
    def needs_word(self) -> bool:
        return self.is_copy and not self.is_renamed

    def consequences(self) -> list[str]:
        """Tell what becomes of what is under way, in sentences."""
        lines = ["Queues, relays, deliveries, cron tasks and the HTTP API begin to act."]
        if self.is_renamed:
            lines.append(
                f"Relays write as “sluice.{self.to_name}.…” from now on, and positions for lag "
                f"tools go to groups named “{self.to_name}-…”; what stands in Kafka under "
                f"“{self.from_name}” is left to whoever goes on with that name."
            )
            if self.stamped:
                lines.append(
                    f"{so_many(self.stamped, 'outgoing message was', 'outgoing messages were')} "
                    f"about to be sent as {self.from_name}: under the new name Kafka knows "
                    "nothing of them, so the relay will be in doubt and ask a person."
                )
        if self.pending:
            lines.append(
                f"{so_many(self.pending, 'outgoing message waits', 'outgoing messages wait')} "
                "and will be sent, unless what is found below says otherwise."
            )
        if self.is_copy:
            lines.append("As the data was copied, it is first looked at as after a restore.")
        return lines


class _Known:
    """That this process's database was found fit to act, and when. A refusal is never kept."""

    fit_at: float = float("-inf")


def refuse_if_held() -> None:
    """Raises NotOursError or RestoredDatabaseError where nothing may be accepted."""
    now = time.monotonic()
    if now - _Known.fit_at < KNOWN_SECONDS:
        return
    with django_connection().cursor() as cursor:
        if not deployments.may_act(cursor):
            owner = deployments.foreign_environment(cursor)
            raise RestoredDatabaseError if owner is None else NotOursError(owner)
    _Known.fit_at = now


def planned() -> Adoption | None:
    """Plan what adopting would do; None when there is nothing to adopt."""
    standing = _standing()
    if standing.owner is None:
        return None
    waiting = OutboxRow.objects.filter(state__in=(OutboxState.STAMPED, OutboxState.PENDING))
    batches = RelayLease.objects.values_list("batch_rows", flat=True)
    under_way = sum(len(ids or ()) for ids in batches)
    in_doubt = waiting.filter(state=OutboxState.STAMPED).count()
    return Adoption(
        from_environment=standing.environment or "",
        from_name=standing.name or "",
        to_environment=settings.SLUICE_ENVIRONMENT,
        to_name=settings.SLUICE_DEPLOYMENT,
        stamped=under_way + in_doubt,
        pending=waiting.count() - under_way - in_doubt,
        is_copy=standing.noted_mark != standing.mark,
    )


def _standing() -> Standing:
    with django_connection().cursor() as cursor:
        return deployments.standing(cursor)


def adopt(author: Author, *, twin_is_stopped: bool = False) -> str:
    """Make this database this installation's; returns what was done, in a sentence.

    `twin_is_stopped` is a person's word that nothing runs on the database it was copied from;
    it is needed where the deployment's name stays. Writes one row of audit. Raises
    NothingToAdoptError, TwinRunningError, RowBusyError.
    """
    with short_transaction():
        deployment = Deployment.objects.select_for_update().order_by("pk").first()
        plan = planned()
        if deployment is None or plan is None:
            raise NothingToAdoptError(_standing())
        if plan.needs_word and not twin_is_stopped:
            raise TwinRunningError(plan.to_name)
        deployment.name, deployment.environment = plan.to_name, plan.to_environment
        configuration.save(deployment, author)
        if plan.is_renamed:
            # Kafka knows nothing under the new name, so nothing is to be compared with it.
            RelayLease.objects.update(watermark=None)
        with django_connection().cursor() as cursor:
            deployments.may_act(cursor)  # notes where the data is by now
    return (
        f"This database now belongs to {plan.to_environment} ({plan.to_name}); it belonged to "
        f"{plan.from_environment} ({plan.from_name})."
    )
