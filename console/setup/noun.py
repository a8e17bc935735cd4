"""A noun of the set-up pages: its form, table and words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django_filters import FilterSet
from django_tables2 import Table

from console.forms.setup_form import SetupForm
from console.layout.access import Right, has, scope_of
from integration.selectors.failures import failures
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.scope import Scope
from integration.selectors.setup.nouns import Use

SHARED = (
    "Your account is limited to some external systems, and this is shared by all of them. Ask an "
    "administrator without that limit."
)


def _nobody(_row: Any, _scope: Scope) -> list[Use]:
    return []


def _silent(_row: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """One kind of thing that people set up; `console.setup.pages` makes all its pages of this.

    `one` names its pages (system, system-new, system-change, system-delete, system-switch) and
    the template of a row's page, which extends console/setup/card.html; `below` begins its
    address. `rows` answers what a person of this scope may know of, with what the table shows;
    `uses` says what depends on a row. `stops` says what switching a row off stops; without it
    there is no switch. `warns` says what switching one on would stop, and then that is asked
    back; empty where nothing. What is `shared` is changed only by people whom nothing limits;
    what is `founding` they alone may add and delete. `is_grave`: to delete one, its name is
    typed. `label` is the column with its name, empty where two others tell rows apart. `held`
    finds what was put on hold because a row was off, to be released once it is on. `more` adds to
    the context of a row's page. `also` is a right that changing one takes beside CONFIGURE.
    """

    one: str
    title: str
    about: str
    form: type[SetupForm]
    table: type[Table]
    filters: type[FilterSet]
    rows: Callable[[Scope], QuerySet[Any]]
    more: Callable[[HttpRequest, Any], Mapping[str, object]]
    uses: Callable[[Any, Scope], list[Use]] = _nobody
    stops: Callable[[Any], str] | None = None
    held: Callable[[Any], FailureFilter] | None = None
    warns: Callable[[Any], str] = _silent
    label: str = "name"
    below: str = ""
    is_shared: bool = False
    is_founding: bool = False
    is_grave: bool = False
    also: Right | None = None

    @property
    def many(self) -> str:
        """The name of its list, and the address."""
        return f"{self.one}s"

    @property
    def model(self) -> type[Model]:
        return self.form._meta.model

    @property
    def word(self) -> str:
        return str(self.model._meta.verbose_name)

    @property
    def kind(self) -> str:
        """The name of it in audit rows."""
        return self.model._meta.model_name or ""

    @property
    def has_switch(self) -> bool:
        return self.stops is not None

    @property
    def may_be_used(self) -> bool:
        """Return True where something may depend on a row."""
        return self.uses is not _nobody

    @property
    def holds(self) -> bool:
        """Return True when messages may be put on hold while a row is off."""
        return self.held is not None

    def hindrance(self, user: User | AnonymousUser, *, founds: bool = False) -> str:
        """The reason why this person may not change such a row; empty when they may.

        `founds` asks about adding and deleting.
        """
        if not has(user, Right.CONFIGURE):
            return Right.CONFIGURE.missing
        if self.also is not None and not has(user, self.also):
            return self.also.missing
        bound = self.is_shared or (founds and self.is_founding)
        return SHARED if bound and not scope_of(user).is_whole else ""

    def held_of(self, user: User | AnonymousUser, row: Any) -> int:
        """Count the messages put on hold while the row was off that this person may release.

        0 while it is off and for those who may not; counted no further than failures are.
        """
        if self.held is None or not row.enabled or not has(user, Right.OPERATE):
            return 0
        return failures.count(self.held(row), scope_of(user))
