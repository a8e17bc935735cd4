"""The base of all set-up forms: a reason, a layout, what somebody else changed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from crispy_forms.helper import FormHelper
from crispy_forms.layout import HTML, Field, Fieldset, Layout
from django import forms
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import Model
from django.http import Http404
from django.utils.html import escape

from integration.actions import configuration
from integration.actions.configuration import Author, Facts
from integration.actions.errors import ChangedMeanwhileError
from integration.errors import IntegrationError
from integration.selectors import changes
from integration.selectors.scope import EVERYTHING, Scope

# A heading, a sentence below it or nothing, and the names of its fields.
Part = tuple[str, str, Sequence[str]]

# Marks of what only one of the two kinds of provider has.
ONLY_AT_KAFKA: Final = "only-at-kafka"
ONLY_AT_JMS: Final = "only-at-jms"
NAME_SENTENCE: Final = "Use only letters, digits, - and _, without blanks."


def reason_field(help_text: str) -> forms.CharField:
    """The field for the reason, for the history."""
    return forms.CharField(required=False, max_length=500, label="Why", help_text=help_text)


def inner_helper() -> FormHelper:
    """Lays out the fields only: the page has the form's tag and its token."""
    helper = FormHelper()
    helper.template_pack = "bootstrap5"
    helper.form_tag = False
    helper.disable_csrf = True
    return helper


def names_in(parts: Iterable[Part]) -> list[str]:
    """The fields of a form with these parts."""
    return [name for _, _, names in parts for name in names]


class SetupForm(forms.ModelForm):  # type: ignore[type-arg] # subclasses name their model
    """A form with the reason of the change; subclasses lay out their fields in `parts`.

    `scope` limits what may be chosen. A field of `secret_fields` (see console.forms.secrets) is
    written and never shown.
    """

    parts: ClassVar[Sequence[Part]] = ()
    # By what the style sheet hides a field, where another choice makes it count for nothing.
    marks: ClassVar[Mapping[str, str]] = {}
    taken: ClassVar[str] = "Somebody else has just taken this name. Choose another one."
    is_changed = False

    reason = reason_field("Optional. Kept in the history of changes, for anyone who asks later.")

    def __init__(self, *args: Any, scope: Scope = EVERYTHING, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scope = scope
        for field in self.fields.values():
            if isinstance(field, forms.SlugField):
                field.error_messages["invalid"] = NAME_SENTENCE
        self.helper = inner_helper()

    def lay_out(self) -> None:
        """Arrange the fields; called once they are all there, by the pages."""
        laid = [self._part(part) for part in self.parts]
        self.helper.layout = Layout(*laid, Field("reason"))

    def _part(self, part: Part) -> Fieldset:
        title, sentence, names = part
        lead = [HTML(f'<p class="text-secondary">{escape(sentence)}</p>')] if sentence else []
        shown = [n for name in names for n in (name, f"remove_{name}") if n in self.fields]
        marks = {self.marks.get(name.removeprefix("remove_"), "") for name in shown}
        if len(marks) == 1:
            return Fieldset(title, *lead, *map(Field, shown), css_class=marks.pop())
        return Fieldset(title, *lead, *map(self._marked, shown))

    def _marked(self, name: str) -> Field:
        return Field(name, wrapper_class=self.marks.get(name.removeprefix("remove_"), ""))

    def put_back(self, names: Iterable[str]) -> None:
        """Give these columns of the row their defaults: they count for nothing now."""
        fresh = type(self.instance)()
        for name in names:
            setattr(self.instance, name, getattr(fresh, name))

    def entered(self, name: str) -> Any:
        """The value of a field now, to show its effect; asked before the field is drawn."""
        if self.is_bound:
            return self.data.get(name)
        return self.get_initial_for_field(self.fields[name], name)

    @property
    def rows(self) -> Sequence[Model]:
        """The rows that a good form stores."""
        return (self.instance,)

    @property
    def why(self) -> str:
        return str(self.cleaned_data.get("reason", ""))

    def saved(self, author: Author, seen: str | None = None) -> bool:
        """Write the row of a good form; if that fails, return False, and the form says why.

        Afterwards `is_changed` says whether it differed. Raises ChangedMeanwhileError.
        """
        is_new = self.instance.pk is None
        try:
            self.is_changed = self.store(author, seen)
        except ChangedMeanwhileError:
            raise
        except IntegrityError:
            self.add_error(None, self.taken)
        except (IntegrationError, ValidationError) as problem:
            self.show_problem(problem)
        else:
            return True
        if is_new:
            # The row was rolled back, and the form is shown again as that of a new one.
            self.instance.pk = None
        return False

    def store(self, author: Author, seen: str | None) -> bool:
        """Write the row of a good form; False where nothing differs.

        Raises what configuration.save raises, IntegrationError.
        """
        return configuration.save(self.instance, author, seen=seen) is not None

    def show_problem(self, problem: IntegrationError | ValidationError) -> None:
        """Say what came up while storing."""
        sentences = problem.messages if isinstance(problem, ValidationError) else [str(problem)]
        self.add_error(None, [*sentences, "Nothing was saved."])

    def closed_by(self, sentence: str) -> None:
        """Show everything and let nothing be entered: the person lacks the right to change it."""
        if sentence:
            for field in self.fields.values():
                field.disabled = True


def conflict_of(problem: ChangedMeanwhileError, mine: Model) -> dict[str, object]:
    """Context of a form's page, so that saving it again is a choice; 404 when the row is gone.

    `seen` is the stamp of what is stored now, `differing` are the fields that are not the same in
    both, `last` is the newest change in its history.
    """
    if problem.stored is None:
        raise Http404(str(problem))
    kind = mine._meta.model_name or ""
    theirs, ours = configuration.facts(problem.stored), configuration.facts(mine)
    seen = configuration.stamp(problem.stored)
    return {"seen": seen, **compared(problem, kind, problem.stored.pk, theirs, ours)}


def compared(
    problem: ChangedMeanwhileError, kind: str, number: Any, theirs: Facts, ours: Facts
) -> dict[str, object]:
    """Context of the table that shows what is stored beside what was entered."""
    return {
        "conflict": problem,
        "differing": [d for d in changes.differences(theirs, ours) if d.before != d.after],
        "last": next(iter(changes.history_of(kind, number, 1)), None),
    }


def free_name(name: str, taken: Sequence[str]) -> str:
    """`name` with "-copy", or "-copy-2" and so on where that is taken.

    >>> free_name("eam", ["eam", "eam-copy"])
    'eam-copy-2'
    """
    begun = f"{name[:50]}-copy"
    wanted, number = begun, 2
    while wanted in taken:
        wanted, number = f"{begun}-{number}", number + 1
    return wanted
