"""The outbox over HTTP: what is to be sent, what Kafka refused, and what is in doubt."""

from collections.abc import Callable
from typing import Final

from django.http import Http404, HttpRequest
from ninja import Query, Router

from console.api.once import begin
from console.api.outbox_answers import (
    AboutBatch,
    AboutCommit,
    AboutRow,
    AboutRows,
    BatchesInDoubt,
    BatchInDoubt,
    CommitChoice,
    CommitDecided,
    CommitInDoubt,
    CommitsInDoubt,
    OutboxFilters,
    OutboxOutcome,
    OutboxPage,
    Outgoing,
    OutgoingLine,
    Rows,
)
from console.api.paging import filter_in, in_range
from console.api.payload_answers import ShownMessage
from console.api.routes import acting, reading
from console.layout import trail
from console.layout.access import Right, scope_of
from console.layout.answers import actor_of
from console.outbox.filters import OutboxFilterForm
from console.outbox.pages import GONE, KIND, NO_COMMIT, NO_RELAY
from integration.actions import outbox as actions
from integration.actions import two_phase
from integration.actions.outbox import OutboxMismatchError
from integration.selectors.masking.outgoing import contents_of_row, mask_of_row
from integration.selectors.outbox import rows as outbox_rows
from integration.selectors.outbox.branches import commits_in_doubt
from integration.selectors.outbox.rows import OutboxDetail, known_of

router: Final = Router(tags=["outbox"])
ONE: Final = "/outbox/{int:row_id}"


@reading(router, "/outbox", answer=OutboxPage)
def list_rows(request: HttpRequest, filters: Query[OutboxFilters]) -> OutboxPage:
    """What Kafka refused, or with another state what waits or is being sent, in its order."""
    form = OutboxFilterForm(filter_in(request.GET, "after", "size"), [], [])
    form.refuse_misread()
    page = outbox_rows.page(form.wanted(scope_of(request.user)), filters.after, filters.size)
    return OutboxPage(
        rows=[OutgoingLine.of(line) for line in page.rows],
        count=page.shown_count,
        is_capped=page.is_capped,
        next=page.next_after,
    )


@reading(router, "/outbox/batches-in-doubt", answer=BatchesInDoubt)
def list_batches_in_doubt(request: HttpRequest) -> BatchesInDoubt:
    """Batches of relays of which nobody knows whether they are in Kafka."""
    found = outbox_rows.doubts(scope_of(request.user))
    return BatchesInDoubt(batches=[BatchInDoubt.of(one) for one in found])


@reading(router, "/outbox/commits-in-doubt", answer=CommitsInDoubt)
def list_commits_in_doubt(request: HttpRequest) -> CommitsInDoubt:
    """Two-phase commits of which nobody knows how they ended."""
    found = commits_in_doubt(scope_of(request.user))
    return CommitsInDoubt(commits=[CommitInDoubt.of(one) for one in found])


@reading(router, ONE, answer=Outgoing)
def read_row(request: HttpRequest, row_id: int) -> Outgoing:
    """One row: where it stands, what to do now, and what people decided."""
    return Outgoing.of_detail(_known(request, row_id))


@reading(router, f"{ONE}/payload", Right.VIEW_PAYLOAD, answer=ShownMessage)
def read_payload(request: HttpRequest, row_id: int) -> ShownMessage:
    """Payload, key and headers, without what masking rules hide. That it was read is noted."""
    row = _known(request, row_id).row
    trail.note_view(request, KIND, row_id, f"{row_id} of {row.topic}")
    return ShownMessage.of_contents(contents_of_row(row, mask_of_row(row)))


@acting(router, "POST", f"{ONE}/sendings", Right.VIEW, Right.OPERATE, answer=Outgoing)
def send_again_row(request: HttpRequest, row_id: int, asked: AboutRow) -> Outgoing:
    """Give a row that Kafka refused back to the relay."""
    return _decided(request, row_id, actions.send_again, asked)


@acting(router, "POST", f"{ONE}/cancellations", Right.VIEW, Right.OPERATE, answer=Outgoing)
def give_up_row(request: HttpRequest, row_id: int, asked: AboutRow) -> Outgoing:
    """Give up a row that Kafka refused, for good; needs a reason."""
    return _decided(request, row_id, actions.give_up, asked)


@acting(router, "POST", "/outbox/sendings", Right.VIEW, Right.OPERATE, answer=OutboxOutcome)
def send_again_many(request: HttpRequest, asked: AboutRows) -> OutboxOutcome:
    """Give rows that Kafka refused back to the relay, as many as 10,000."""
    return _many_decided(request, actions.send_again_many, asked)


@acting(router, "POST", "/outbox/cancellations", Right.VIEW, Right.OPERATE, answer=OutboxOutcome)
def give_up_many(request: HttpRequest, asked: AboutRows) -> OutboxOutcome:
    """Give up rows that Kafka refused, for good; needs a reason."""
    return _many_decided(request, actions.give_up_many, asked)


@acting(
    router,
    "POST",
    "/outbox/batches-in-doubt/{int:lease_id}/decisions",
    *(Right.VIEW, Right.OPERATE),
    answer=Rows,
)
def decide_batch(request: HttpRequest, lease_id: int, asked: AboutBatch) -> Rows:
    """Say whether the batch that a relay is in doubt about is in Kafka."""
    if not scope_of(request.user).is_whole:
        raise Http404(NO_RELAY)
    count = actions.resolve_in_doubt(
        in_range(lease_id, "There is no such relay."),
        batch=asked.batch,
        sent=asked.is_sent,
        actor=actor_of(request),
        reason=asked.reason,
    )
    return Rows(count=count)


@acting(
    router,
    "POST",
    "/outbox/commits-in-doubt/decisions",
    *(Right.VIEW, Right.OPERATE),
    answer=CommitDecided,
)
def decide_commit(request: HttpRequest, asked: AboutCommit) -> CommitDecided:
    """Commit a prepared transaction whose end Kafka does not tell, or roll it back."""
    if not scope_of(request.user).is_whole:
        raise Http404(NO_COMMIT)
    is_commit = asked.choice is CommitChoice.COMMIT
    # By a session of its own, which is no part of the transaction of a key.
    begin(request)
    two_phase.decide(asked.name, commit=is_commit, actor=actor_of(request), reason=asked.reason)
    return CommitDecided(name=asked.name, choice=asked.choice)


def _known(request: HttpRequest, row_id: int) -> OutboxDetail:
    """The row, if this person may know of it. Raises Http404."""
    detail = outbox_rows.detail(in_range(row_id, GONE), scope_of(request.user))
    if detail is None:
        raise Http404(GONE)
    return detail


def _decided(
    request: HttpRequest, row_id: int, verb: Callable[..., None], asked: AboutRow
) -> Outgoing:
    """Carry a verb out. Doing the same again is no problem, as on the page."""
    _known(request, row_id)
    try:
        verb(row_id, batch=asked.batch, actor=actor_of(request), reason=asked.reason)
    except OutboxMismatchError as problem:
        if not problem.already_done:
            raise
    return Outgoing.of_detail(_known(request, row_id))


def _many_decided(
    request: HttpRequest, verb: Callable[..., actions.OutboxOutcome], asked: AboutRows
) -> OutboxOutcome:
    seen = {row.id: row.batch for row in asked.rows}
    known = known_of(seen, scope_of(request.user))
    mine = {row_id: batch for row_id, batch in seen.items() if row_id in known}
    done = verb(mine, actor=actor_of(request), reason=asked.reason)
    return OutboxOutcome(moved=done.moved, moved_on=done.moved_on + len(seen) - len(mine))
