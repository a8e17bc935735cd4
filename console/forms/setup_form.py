"""What all forms of the set-up have in common: a reason, a layout, help at each field."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from crispy_forms.helper import FormHelper
from crispy_forms.layout import HTML, Field, Fieldset, Layout
from django import forms
from django.utils.html import escape

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.selectors.scope import EVERYTHING, Scope

# A heading, a sentence below it or nothing, and the names of its fields.
Part = tuple[str, str, Sequence[str]]

NAME_SENTENCE: Final = "Use letters, digits, - and _ only, without blanks."


class SetupForm(forms.ModelForm):  # type: ignore[type-arg] # subclasses name their model
    """A form with the reason of the change; subclasses lay out their fields in `parts`.

    `scope` limits what may be chosen. A field of `secret_fields` (see console.setup.secrets) is
    written and never shown.
    """

    parts: ClassVar[Sequence[Part]] = ()

    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Why",
        help_text="Optional. It is kept in the history of changes, for those who wonder later.",
    )

    def __init__(self, *args: Any, scope: Scope = EVERYTHING, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scope = scope
        for field in self.fields.values():
            if isinstance(field, forms.SlugField):
                field.error_messages["invalid"] = NAME_SENTENCE
        self.helper = FormHelper()
        self.helper.form_tag = False
        self.helper.disable_csrf = True

    def lay_out(self) -> None:
        """Arrange the fields; called once they are all there, by the pages."""
        laid = [self._part(part) for part in self.parts]
        self.helper.layout = Layout(*laid, Field("reason"))

    def _part(self, part: Part) -> Fieldset:
        title, sentence, names = part
        lead = [HTML(f'<p class="text-secondary">{escape(sentence)}</p>')] if sentence else []
        return Fieldset(title, *lead, *(Field(n) for n in names if n in self.fields))

    def entered(self, name: str) -> Any:
        """What a field holds now, to tell its effect; asked before the field is drawn."""
        if self.is_bound:
            return self.data.get(name)
        return self.get_initial_for_field(self.fields[name], name)

    @property
    def why(self) -> str:
        return str(self.cleaned_data.get("reason", ""))

    def store(self, author: Author, seen: str | None) -> None:
        """Write the row of a good form. Raises what configuration.save raises, IntegrationError."""
        configuration.save(self.instance, author, seen=seen)

    def closed_by(self, sentence: str) -> None:
        """Show everything and let nothing be entered: the person lacks the right to change it."""
        if sentence:
            for field in self.fields.values():
                field.disabled = True


def copy_of(row: Any, label: str, fields: Sequence[str], taken: Sequence[str]) -> dict[str, Any]:
    """The values a clone's form begins with: all of `fields`, but a name that is free."""
    found = forms.model_to_dict(row, fields=list(fields))
    found[label] = free_name(str(getattr(row, label)), taken)
    return found


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
