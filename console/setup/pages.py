"""The pages of every noun that people set up: list, card, new, change, delete, switch."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models import Model
from django.forms import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django_tables2 import RequestConfig

from console.forms.conflicts import conflict_of
from console.forms.setup_form import SetupForm, copy_of
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, tell_problem
from console.layout.asked import number_of
from console.setup.noun import Noun
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.problems import ChangedMeanwhileError, InUseError
from integration.errors import IntegrationError
from integration.selectors import changes

ROWS = 50


@needs(Right.VIEW)
def listing(request: HttpRequest, noun: Noun) -> HttpResponse:
    """All of them, sorted and filtered as the address says."""
    every = noun.rows(scope_of(request.user))
    chosen = None if noun.filters is None else noun.filters(request.GET, queryset=every)
    shown = every if chosen is None or not chosen.form.is_valid() else chosen.qs
    table = noun.table(shown)
    table.caption = noun.title
    RequestConfig(request, paginate=False).configure(table)
    # How many rows a page has is not for the address to say.
    table.paginate(page=1, per_page=ROWS)
    table.page = table.paginator.get_page(request.GET.get(table.prefixed_page_field, 1))
    context = {
        "noun": noun,
        "table": table,
        "filter": chosen,
        "is_filtered": chosen is not None and any(chosen.data.get(f) for f in chosen.form.fields),
        "hindrance": noun.hindrance(request.user, founds=True),
    }
    return render(request, "console/setup/list.html", context)


@needs(Right.VIEW)
def card(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """What it is, what depends on it, what was changed."""
    return show_card(request, noun, found_row(request, noun, number))


def show_card(
    request: HttpRequest,
    noun: Noun,
    row: Model,
    *,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    """The page of one row, with more in its context."""
    context = {
        **_about(request, noun, row),
        "uses": noun.uses(row, scope_of(request.user)),
        "history": changes.history_of(noun.kind, row.pk),
        "stops": noun.stops(row) if noun.stops is not None else "",
        "warning": noun.warns(row),
        "held": noun.held_of(request.user, row),
        **noun.more(request, row),
        **more,
    }
    return render(request, noun.card_page, context, status=status)


@needs(Right.VIEW, Right.CONFIGURE)
def create(request: HttpRequest, noun: Noun) -> HttpResponse:
    """A new one; `?like=NUMBER` begins with a copy, `?FIELD=VALUE` with values."""
    refuse(noun.hindrance(request.user, founds=True))
    if request.method != "POST":
        return show_form(request, noun, new_form(request, noun, None))
    form = new_form(request, noun, request.POST)
    if form.is_valid() and _stored(form, Author(actor_of(request), form.why)):
        messages.success(request, f"{form.instance} is there.")
        return see(noun.one, form.instance.pk)
    return show_form(request, noun, form, status=422)


@needs(Right.VIEW, Right.CONFIGURE)
def change(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Its form; nothing is written when somebody else was faster."""
    row = found_row(request, noun, number)
    refuse(noun.hindrance(request.user))
    if request.method != "POST":
        form = noun.form(instance=row, scope=scope_of(request.user))
        return show_form(request, noun, form, seen=configuration.stamp(row))
    form, seen = (
        noun.form(request.POST, instance=row, scope=scope_of(request.user)),
        seen_in(request),
    )
    if not form.is_valid():
        return show_form(request, noun, form, status=422, seen=seen)
    try:
        is_stored = _stored(form, Author(actor_of(request), form.why), seen)
    except ChangedMeanwhileError as problem:
        found = conflict_of(problem, form.instance)
        return show_form(request, noun, form, status=409, **found)
    if not is_stored:
        return show_form(request, noun, form, status=422, seen=seen)
    return see(noun.one, number)


@needs(Right.VIEW, Right.CONFIGURE)
def delete(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Asked first, with what depends on it; then gone, with a reason kept."""
    row = found_row(request, noun, number)
    refuse(noun.hindrance(request.user, founds=True))
    if request.method != "POST":
        return _show_deletion(request, noun, row)
    reason = request.POST.get("reason", "").strip()
    mistake = "" if reason else "Write one sentence for those who will read the history."
    if noun.is_grave and request.POST.get("name", "").strip() != str(row):
        mistake = f"Type “{row}” to confirm. {mistake}".strip()
    if mistake:
        return _show_deletion(request, noun, row, mistake=mistake, status=422)
    try:
        configuration.delete(row, Author(actor_of(request), reason))
    except InUseError as problem:
        return _show_deletion(request, noun, row, mistake=str(problem), status=409)
    messages.success(request, f"{row} was deleted. Its history stays under Changes.")
    return see(noun.many)


@needs(Right.VIEW, Right.CONFIGURE)
def switch(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """On or off, as the form says; safe to press twice."""
    row = found_row(request, noun, number)
    refuse(noun.hindrance(request.user))
    if request.method != "POST":
        return see(noun.one, number)
    to = request.POST.get("to", "")
    if to not in {"on", "off"}:
        raise BadRequest("The form says neither “on” nor “off”. Open the page and use the button.")
    if to == "on" and noun.warns(row) and not row.enabled and "sure" not in request.POST:
        messages.warning(request, f"{row} is still off. {noun.warns(row)} Confirm that below.")
        return see(noun.one, number)
    seen, row.enabled = configuration.stamp(row), to == "on"
    author = Author(actor_of(request), request.POST.get("reason", "")[:500])
    try:
        is_changed = configuration.save(row, author, seen=seen) is not None
    except ChangedMeanwhileError as problem:
        tell_problem(request, problem)
        return see(noun.one, number)
    if is_changed:
        messages.success(request, f"{row} is switched {to}.")
    else:
        messages.info(request, f"{row} was switched {to} already.")
    return see(noun.one, number)


def found_row(request: HttpRequest, noun: Noun, number: int) -> Any:
    """The row, if this person may know of it; else a 404."""
    row = noun.rows(scope_of(request.user)).filter(pk=number).first()
    if row is None:
        raise Http404(f"There is no such {noun.word} (any more).")
    return row


def new_form(request: HttpRequest, noun: Noun, given: Any) -> SetupForm:
    """The form of a row that is not there yet."""
    scope = scope_of(request.user)
    if given is not None:
        return noun.form(given, scope=scope)
    names = list(noun.form.base_fields)
    initial: dict[str, Any] = {n: request.GET[n] for n in names if n in request.GET}
    like = number_of(request.GET.get("like", ""))
    source = None if like is None else noun.rows(scope).filter(pk=like).first()
    if source is not None and noun.label:
        every = noun.rows(scope_of(request.user)).values_list(noun.label, flat=True)
        initial = copy_of(source, noun.label, names, list(every))
    elif source is not None:
        initial = model_to_dict(source, fields=names)
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
    return render(request, noun.form_page, context, status=status)


def refuse(hindrance: str) -> None:
    """Raises PermissionDenied, whose page shows the sentence, unless it is empty."""
    if hindrance:
        raise PermissionDenied(hindrance)


def _stored(form: SetupForm, author: Author, seen: str | None = None) -> bool:
    """Whether it was written; a name taken at the same moment becomes a mistake of the form."""
    is_new = form.instance.pk is None
    try:
        form.store(author, seen)
    except ChangedMeanwhileError:
        raise
    except IntegrityError:
        form.add_error(None, "Somebody else has just taken this name. Choose another one.")
    except (IntegrationError, ValidationError) as problem:
        sentences = problem.messages if isinstance(problem, ValidationError) else [str(problem)]
        form.add_error(None, [*sentences, "Nothing was saved."])
    else:
        return True
    if is_new:
        # The row was rolled back, and the form is shown again as that of a new one.
        form.instance.pk = None
    return False


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
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "console/setup/delete.html", context, status=status)


def _about(request: HttpRequest, noun: Noun, row: Any) -> dict[str, object]:
    return {
        "noun": noun,
        "row": row,
        "hindrance": noun.hindrance(request.user),
        "founding_hindrance": noun.hindrance(request.user, founds=True),
    }


def seen_in(request: HttpRequest) -> str:
    """The stamp that the form carries of what it was made from."""
    return request.POST.get("seen", "")[:64]
