"""The pages of every noun that people set up: list, card, new, change, delete, switch, release."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Model
from django.forms import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django_tables2 import RequestConfig

from console.forms.setup_form import SetupForm, conflict_of, free_name
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import actor_of, reason_of, see, tell_problem
from console.setup.noun import Noun
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import ChangedMeanwhileError, InUseError, NothingChosenError
from integration.actions.operations import release_held
from integration.errors import IntegrationError
from integration.selectors import changes
from integration.selectors.masking.limits import removal_unmasks, storing_unmasks
from integration.selectors.setup import foreign
from integration.selectors.setup.nouns import chosen

ROWS: Final = 50
STORING_UNMASKS: Final = (
    "With this change, values that a masking rule hides could be seen or guessed."
)
REMOVAL_UNMASKS: Final = (
    "A masking rule hides values in its messages. After the deletion, another of the same name "
    "could show them."
)
UNEXPLAINED: Final = "Enter a reason, for those who will read the history."
# Buttons that show what a form comes to, and store nothing.
TRIALS: Final = frozenset({"show", "show-effect", "try"})


@needs(Right.VIEW)
def listing(request: HttpRequest, noun: Noun) -> HttpResponse:
    """All of them, sorted and filtered as the address says."""
    every = noun.rows(scope_of(request.user))
    wanted = noun.filters(request.GET, queryset=every)
    table = noun.table(wanted.qs if wanted.form.is_valid() else every)
    table.caption = noun.title
    RequestConfig(request, paginate=False).configure(table)
    # How many rows a page has is not for the address to say.
    table.paginate(page=1, per_page=ROWS)
    table.page = table.paginator.get_page(request.GET.get(table.prefixed_page_field, 1))
    context = {
        "noun": noun,
        "table": table,
        "filter": wanted,
        "is_filtered": any(wanted.data.get(name) for name in wanted.form.fields),
        "hindrance": noun.hindrance(request.user, founds=True),
    }
    return render(request, "console/setup/list.html", context)


@needs(Right.VIEW)
def card(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Show a row, what depends on it and its changes."""
    return show_card(request, noun, known_row(request, noun, number))


def show_card(
    request: HttpRequest,
    noun: Noun,
    row: Model,
    *,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    """The page of one row, with more in its context."""
    scope = scope_of(request.user)
    context = {
        **_about(request, noun, row),
        "uses": noun.uses(row, scope),
        "history": foreign.without_names(changes.history_of(noun.kind, row.pk), scope),
        "stops": noun.stops(row) if noun.stops is not None else "",
        "warning": noun.warns(row),
        "held": noun.held_of(request.user, row),
        **noun.more(request, row),
        **more,
    }
    return render(request, f"console/setup/{noun.one}.html", context, status=status)


@needs(Right.VIEW, Right.CONFIGURE)
def create(request: HttpRequest, noun: Noun) -> HttpResponse:
    """A new one; `?like=NUMBER` begins with a copy, `?FIELD=VALUE` with values."""
    refuse(noun.hindrance(request.user, founds=True))
    show = partial(show_form, request, noun)
    if request.method != "POST":
        return show(new_form(request, noun, None))
    form = new_form(request, noun, request.POST)
    if again := shown_again(request, form, show):
        return again
    messages.success(request, f"{form.instance} was added.")
    return see(noun.one, form.instance.pk)


@needs(Right.VIEW, Right.CONFIGURE)
def change(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Its form; nothing is written when somebody else was faster."""
    row, scope = known_row(request, noun, number), scope_of(request.user)
    refuse(noun.hindrance(request.user))
    show = partial(show_form, request, noun)
    if request.method != "POST":
        return show(noun.form(instance=row, scope=scope), seen=configuration.stamp(row))
    form = noun.form(request.POST, instance=row, scope=scope)
    return shown_again(request, form, show, seen_in(request)) or see(noun.one, number)


@needs(Right.VIEW, Right.CONFIGURE)
def delete(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Asked first, with what depends on it; then gone, with a reason kept."""
    row = known_row(request, noun, number)
    refuse(noun.hindrance(request.user, founds=True))
    if request.method != "POST":
        return _show_deletion(request, noun, row)
    author = author_of(request)
    mistake = "" if author.reason else UNEXPLAINED
    if noun.is_grave and request.POST.get("name", "").strip() != str(row):
        mistake = f"Type “{row}” to confirm. {mistake}".strip()
    if unmasking := removal_hindrance(request, row):
        return _show_deletion(request, noun, row, mistake=unmasking, status=403)
    if mistake:
        return _show_deletion(request, noun, row, mistake=mistake, status=422)
    try:
        configuration.delete(row, author)
    except InUseError as problem:
        return _show_deletion(request, noun, row, mistake=str(problem), status=409)
    messages.success(request, f"{row} was deleted. Its history stays under Changes.")
    return see(noun.many)


@needs(Right.VIEW, Right.CONFIGURE)
def switch(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """On or off, as the form says; safe to press twice."""
    row = known_row(request, noun, number)
    refuse(noun.hindrance(request.user))
    if request.method != "POST":
        return see(noun.one, number)
    to = request.POST.get("to", "")
    if to not in {"on", "off"}:
        raise BadRequest("The form says neither “on” nor “off”. Open the page and use the button.")
    if to == "on" and noun.warns(row) and not row.enabled and "sure" not in request.POST:
        messages.warning(
            request, f"{row} is still off. {noun.warns(row)} Confirm below to switch it on anyway."
        )
        return see(noun.one, number)
    seen, row.enabled = configuration.stamp(row), to == "on"
    try:
        is_changed = store(request, row, author_of(request), seen=seen)
    except ChangedMeanwhileError as problem:
        tell_problem(request, problem)
        return see(noun.one, number)
    if is_changed:
        messages.success(request, f"{row} is switched {to}.")
    else:
        messages.info(request, f"{row} was already switched {to}.")
    return see(noun.one, number)


@needs(Right.VIEW, Right.OPERATE)
def release(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Let go what was on hold while the row was off, as one operation; safe to press twice."""
    row = known_row(request, noun, number)
    if request.method != "POST" or noun.held is None:
        return see(noun.one, number)
    if not row.enabled:
        messages.warning(
            request, f"{row} is switched off; released messages would go on hold again."
        )
        return see(noun.one, number)
    try:
        operation = release_held(row, noun.held(row), actor_of(request), scope_of(request.user))
    except NothingChosenError:
        messages.info(request, "None of its messages is on hold for this reason any longer.")
        return see(noun.one, number)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return see(noun.one, number)
    return see("operation", operation)


def known_row(request: HttpRequest, noun: Noun, number: int) -> Any:
    """The row, if this person may know of it; else a 404."""
    row = noun.rows(scope_of(request.user)).filter(pk=number).first()
    if row is None:
        raise Http404(f"There is no such {noun.word}; it may have been deleted.")
    return row


def new_form(request: HttpRequest, noun: Noun, given: Any) -> SetupForm:
    """The form of a row that is not there yet."""
    scope = scope_of(request.user)
    if given is not None:
        return noun.form(given, scope=scope)
    names = list(noun.form.base_fields)
    initial: dict[str, Any] = {n: request.GET[n] for n in names if n in request.GET}
    source = chosen(noun.rows(scope), request.GET.get("like", ""))
    if source is not None:
        initial = model_to_dict(source, fields=names)
        if noun.label:
            taken = list(noun.rows(scope).values_list(noun.label, flat=True))
            initial[noun.label] = free_name(str(initial[noun.label]), taken)
    return noun.form(initial=initial, scope=scope)


def show_form(
    request: HttpRequest,
    noun: Noun,
    form: SetupForm,
    *,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    """The form's page. In `more`: `seen`, the stamp of what the form was made from."""
    form.lay_out()
    row = form.instance if form.instance.pk is not None else None
    context = {
        **_about(request, noun, row),
        # What was entered is not its name yet.
        "name": form.initial.get(noun.label, "") if noun.label else str(row or ""),
        "form": form,
        **more,
    }
    pages = [f"console/setup/{noun.one}_form.html", "console/setup/form.html"]
    return render(request, pages, context, status=status)


def shown_again(
    request: HttpRequest,
    form: SetupForm,
    show: Callable[..., HttpResponse],
    seen: str | None = None,
) -> HttpResponse | None:
    """Store what the form says; the answer of `show` where nothing was stored, else None.

    `seen` is the stamp of what the form of a stored row was made from.
    """
    is_good, known = form.is_valid(), {} if seen is None else {"seen": seen}
    if not TRIALS.isdisjoint(request.POST):
        return show(form, **known)
    if is_good and (unmasking := storing_hindrance(request, form.rows)):
        form.add_error(None, unmasking)
        return show(form, status=403, **known)
    try:
        if is_good and form.saved(Author(actor_of(request), form.why), seen):
            return None
    except ChangedMeanwhileError as problem:
        return show(form, status=409, **conflict_of(problem, form.instance))
    return show(form, status=422, **known)


def store(request: HttpRequest, row: Model, author: Author, *, seen: str) -> bool:
    """Store what a button changed; False where nothing differs.

    `seen` is the stamp of the row before. Raises PermissionDenied where masked values could be
    seen then, ChangedMeanwhileError.
    """
    refuse(storing_hindrance(request, [row]))
    return configuration.save(row, author, seen=seen) is not None


def storing_hindrance(request: HttpRequest, rows: Iterable[Model]) -> str:
    """The reason why this person may not store these rows, because of masking rules; else empty."""
    if has(request.user, Right.REVEAL) or not any(map(storing_unmasks, rows)):
        return ""
    return f"{STORING_UNMASKS} {Right.REVEAL.missing}"


def removal_hindrance(request: HttpRequest, row: Model, why: str = REMOVAL_UNMASKS) -> str:
    """The reason why this person may not delete the row, because of masking rules; else empty."""
    if has(request.user, Right.REVEAL) or not removal_unmasks(row):
        return ""
    return f"{why} {Right.REVEAL.missing}"


def refuse(hindrance: str) -> None:
    """Raises PermissionDenied, whose page shows the sentence, unless it is empty."""
    if hindrance:
        raise PermissionDenied(hindrance)


def _show_deletion(
    request: HttpRequest,
    noun: Noun,
    row: Model,
    *,
    mistake: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        **_about(request, noun, row),
        "uses": noun.uses(row, scope_of(request.user)),
        "mistake": mistake,
        "reason": reason_of(request),
    }
    return render(request, "console/setup/delete.html", context, status=status)


def _about(request: HttpRequest, noun: Noun, row: Any) -> dict[str, object]:
    return {
        "noun": noun,
        "row": row,
        "hindrance": noun.hindrance(request.user),
        "founding_hindrance": noun.hindrance(request.user, founds=True),
    }


def author_of(request: HttpRequest) -> Author:
    """The person who asks, with the reason from the form."""
    return Author(actor_of(request), reason_of(request))


def seen_in(request: HttpRequest) -> str:
    """The stamp that the form carries of what it was made from."""
    return request.POST.get("seen", "")[:64]
