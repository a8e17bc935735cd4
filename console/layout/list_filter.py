"""The base of all list filters: shown leniently, acted upon strictly."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from console.layout.asked import BadFilterError, shortened

WHOLE: Final = "Actions need a filter that can be read completely."


class MomentField(forms.DateTimeField):
    """A moment in UTC, shown as it was understood.

    In an address it may be a day alone, or have a zone: a browser's field would stay empty.
    """

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"})

    def prepare_value(self, value: Any) -> Any:
        """The moment without its zone, as exactly as it was given; what is none stays as it is."""
        try:
            moment = super().prepare_value(self.to_python(value))
        except (ValidationError, OverflowError):
            return value
        if not isinstance(moment, datetime):
            return value
        return moment.isoformat(timespec=_exactly(moment))


def _exactly(moment: datetime) -> str:
    """The part of a second or minute down to which it has to be written."""
    if moment.microsecond:
        return "milliseconds"
    return "seconds" if moment.second else "minutes"


class ListFilterForm(forms.Form):
    """A list's filter from its address.

    A list tells what it cannot read and leaves it out. An action never does: it would reach rows
    that the person did not mean.
    """

    # The fields most people narrow by; a page shows the others when they are asked for.
    first_fields: ClassVar[tuple[str, ...]] = ()
    # What need not be said: the list shows it anyway.
    usual: ClassVar[Mapping[str, str]] = {}

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        self._lay_out()

    @property
    def first(self) -> list[forms.BoundField]:
        """The fields that most people narrow by."""
        return [self[name] for name in self.first_fields]

    @property
    def more(self) -> list[forms.BoundField]:
        """The other fields."""
        return [self[name] for name in self.fields if name not in self.first_fields]

    @property
    def says_more(self) -> bool:
        """Return True when one of the other fields narrows the list."""
        return any(self._says(field.name) for field in self.more)

    def refuse_unreadable(self) -> None:
        """Raises BadFilterError unless an action may go by the filter: it was understood whole."""
        self.refuse_misread()

    def refuse_misread(self) -> None:
        """Raises BadFilterError unless every word of the filter was understood."""
        for name in self.data:
            if name not in self.fields:
                raise BadFilterError(f"there is no filter “{shortened(name)}”. {WHOLE}")
            if isinstance(self.data, QueryDict) and len(self.data.getlist(name)) > 1:
                raise BadFilterError(f"“{name}” is set twice. {WHOLE}")
        for name, problems in self.errors.items():
            raise BadFilterError(f"{self[name].label}: {shortened(str(problems[0]))} {WHOLE}")

    def query(self) -> str:
        """The filter as a query string, without a place in the list."""
        return urlencode(self.words())

    def words(self) -> dict[str, str]:
        """The values of the filter by field name, without the usual ones."""
        return {name: self.data.get(name, "") for name in self.fields if self._says(name)}

    def understood(self) -> dict[str, Any]:
        """The values of the fields that could be read."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}

    def _says(self, name: str) -> bool:
        """Return True when this field narrows the list."""
        return str(self.data.get(name, "")) != self.usual.get(name, "")

    def _lay_out(self) -> None:
        for field in self.fields.values():
            look = "form-select" if isinstance(field, forms.ChoiceField) else "form-control"
            field.widget.attrs["class"] = f"{look} {look}-sm"

    def _offer(self, name: str, known: list[str], every: str) -> None:
        """A value that is not known any more stays selectable: the address stays true."""
        given = self.data.get(name, "")
        extra = [given] if given and given not in known else []
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared by the subclass
        field.choices = [("", every), *((value, value) for value in [*known, *extra])]
