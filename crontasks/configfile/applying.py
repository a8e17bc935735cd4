"""Makes the configuration what a file says: the plan and its carrying out are one walk.

A plan walks in a transaction that is rolled back, so that it finds every mistake that applying
would find, and applying does exactly what was planned.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NotRequired, TypedDict, Unpack

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, models, transaction

from crontasks.configfile import facts
from crontasks.configfile.reading import (
    ConfigFileError,
    Entry,
    Given,
    Mistake,
    SecretDestinationError,
    Sections,
    read,
)
from crontasks.configfile.secrets import Lookup
from crontasks.configfile.sections import NAMES, SECTIONS, Section
from crontasks.instances.actions import CONSUMERS
from crontasks.models import CronInstance
from integration import registration
from integration.actions import configuration, queue_removal
from integration.actions.configuration import Author, settable
from integration.actions.kept_secrets import redirected
from integration.errors import IntegrationError
from integration.models import Queue
from integration.models.fields import SecretField
from integration.sealed import is_sealed, masked
from integration.store.locks import LockClass
from integration.xa.changing import refuse_change

STARTS: Final = ("start_from", "start_time", "start_group")
BEGUN: Final = (
    "The queue has begun to read, and where it began was decided once. Write what is stored, or "
    "leave the field out."
)
NOT_THERE: Final = (
    "What the file changes would send the stored secret elsewhere, and it is only ever sent where "
    "it was stored for. Make the change in the console and enter the secret there, or write “''” "
    "to remove it; manage.py config may do both."
)
# The entries of a section as they are stored, each as the file shows it, by their names.
Stored = dict[str, dict[str, Any]]


class How(TypedDict):
    """How a file is meant: `lookup` finds variables, `prune` removes what its sections leave out.

    `may_redirect`: a stored secret may be kept where its destination is changed. Who has the
    machine has every secret; nobody else may send one to a server of their own.
    """

    lookup: Lookup
    author: Author
    prune: NotRequired[bool]
    may_redirect: NotRequired[bool]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field, as the file shows it before and after.

    `is_default`: it is one of a new entry, the file leaves it out, and it has its default.
    """

    field: str
    before: Any
    after: Any
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is created, changed or removed."""

    action: str
    word: str
    name: str
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """An entry, the row it is about, and that row as it was; `stored` is how the file showed it."""

    section: Section
    entry: Entry
    place: str
    row: Any
    was: Any
    stored: dict[str, Any] | None


def plan(content: bytes, **how: Unpack[How]) -> list[Step]:
    """Plan what applying the file would do; nothing is changed.

    Raises ConfigFileError, SecretDestinationError.
    """
    with transaction.atomic():
        steps = apply(content, **how)
        transaction.set_rollback(True)
    return steps


def apply(content: bytes, **how: Unpack[How]) -> list[Step]:
    """Carry the plan out, in one transaction with its audit rows.

    Raises ConfigFileError, SecretDestinationError.
    """
    may_redirect = how.get("may_redirect", False)
    walk = _Walk(read(content, NAMES), how["author"], how["lookup"], may_redirect=may_redirect)
    with transaction.atomic():
        walk.through(prune=how.get("prune", False))
        if walk.mistakes:
            raise (SecretDestinationError if walk.redirects else ConfigFileError)(walk.mistakes)
    return walk.steps


@dataclass(slots=True)
class _Walk:
    """One walk through a file."""

    sections: Sections
    author: Author
    lookup: Lookup
    may_redirect: bool
    steps: list[Step] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    # Whether one of them is a secret that would be sent elsewhere.
    redirects: bool = False
    # What the file has, but cannot be stored: kind and name.
    faulty: set[tuple[type[models.Model], str]] = field(default_factory=set)

    def through(self, *, prune: bool) -> None:
        """Make everything what the file says; `prune` removes what its sections do not name."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LockClass.CONFIGURATION,))
        stored: dict[str, Stored] = {
            section.name: {section.name_of(row): facts.shown(section, row) for row in section.rows}
            for section in SECTIONS
        }
        for section in SECTIONS:
            names: set[str] = set()
            _, entries = self.sections.get(section.name, (0, ()))
            for entry in entries if section.model is not Queue else _in_order(entries):
                self._carry(section, entry, stored[section.name], names)
        if prune and not self.mistakes:
            for section in reversed(SECTIONS):
                self._prune(section, stored[section.name])

    def _refuse(self, line: int, place: str, text: str) -> None:
        self.mistakes.append(Mistake(line, place, text))

    def _carry(self, section: Section, entry: Entry, stored: Stored, names: set[str]) -> None:
        """Bring one thing to what its entry says."""
        name = _name(section, entry)
        if name is None:
            keys = " and its ".join(section.keys)
            why = f"Every entry begins with its {keys}, a text."
            self._refuse(entry.line, section.name, why)
            return
        place = f"{section.name} {name[:80]}"
        if name in names:
            line = entry.values[section.keys[0]].line
            self._refuse(line, place, "This name is given twice.")
            return
        names.add(name)
        row = _row(section, entry)
        was = None if row.pk is None else section.rows.get(pk=row.pk)
        subject = _Subject(
            section=section, entry=entry, place=place, row=row, was=was, stored=stored.get(name)
        )
        before = len(self.mistakes)
        is_whole = self._fill(subject)
        if is_whole and len(self.mistakes) == before:
            self._keep(subject)
        if not is_whole or len(self.mistakes) > before:
            self.faulty.add((section.model, name))

    def _fill(self, subject: _Subject) -> bool:
        """Set what the entry says; return whether all that it refers to is without mistakes."""
        columns, is_whole = subject.section.columns, True
        # Parameters are read by the task that the same entry names.
        for name, entry in sorted(subject.entry.values.items(), key=lambda v: v[0] == "parameters"):
            place = f"{subject.place}, {name}"
            if name not in columns:
                why = f"There is no such field; known: {', '.join(columns)}."
                self._refuse(entry.line, place, why)
                continue
            if self._is_faulty(columns[name], entry):
                # That it is not there yet is no mistake of this line.
                is_whole = False
                continue
            try:
                value = facts.meant(subject.row, columns[name], entry, self.lookup)
                setattr(subject.row, name, value)
            except (ValueError, IntegrationError) as problem:
                self._refuse(entry.line, place, str(problem))
        return is_whole

    def _is_faulty(self, column: facts.Column, entry: Given) -> bool:
        return isinstance(column, models.ForeignKey) and any(
            column.related_model is model and entry.value == name for model, name in self.faulty
        )

    def _keep(self, subject: _Subject) -> None:
        """Judge the row as its form does and store it, where something differs."""
        section, row, was = subject.section, subject.row, subject.was
        is_known = was is not None and subject.stored is not None
        if is_known and not any(_differs(c, was, row) for c in section.columns.values()):
            return
        if is_known and not self.may_redirect and self._redirects(subject):
            return
        try:
            refuse_change(row)
            with transaction.atomic():
                _take_over(section, row, was)
                _judge(row, was)
                configuration.save(row, self.author)
        except ValidationError as problem:
            self._refuse_fields(subject, problem)
            return
        except (IntegrityError, IntegrationError) as problem:
            self._refuse(subject.entry.line, subject.place, str(problem).splitlines()[0])
            return
        after = facts.shown(section, section.rows.get(pk=row.pk))
        if differences := tuple(_differences(subject, after)):
            action = "create" if subject.stored is None else "change"
            name = section.named([after[key] for key in section.keys])
            self.steps.append(Step(action, section.word, name, differences))

    def _redirects(self, subject: _Subject) -> bool:
        """Refuse each secret that would be sent elsewhere; return whether there is one."""
        named = [*redirected(subject.was, subject.row), *_given_away(subject.was, subject.row)]
        for name in named:
            entered = subject.entry.values.get(name.partition(".")[0])
            line = subject.entry.line if entered is None else entered.line
            self._refuse(line, f"{subject.place}, {name}", NOT_THERE)
        self.redirects = self.redirects or bool(named)
        return bool(named)

    def _refuse_fields(self, subject: _Subject, problem: ValidationError) -> None:
        """Each mistake at the line of its field, or of the entry when the file does not name it."""
        for name, sentences in problem.message_dict.items():
            entered = subject.entry.values.get(name, Given(subject.entry.line, None))
            place = subject.place if name == "__all__" else f"{subject.place}, {name}"
            for sentence in sentences:
                self._refuse(entered.line, place, sentence)

    def _prune(self, section: Section, stored: Stored) -> None:
        if section.name not in self.sections:
            return
        line, entries = self.sections[section.name]
        named = {_name(section, entry) for entry in entries}
        waiting, problems = sorted(set(stored) - named, reverse=True), {}
        while waiting:
            problems = {name: self._removed(section, stored[name]) for name in waiting}
            needed = [name for name in waiting if problems[name]]
            if len(needed) == len(waiting):
                break
            # One of them may have been what another was needed by.
            waiting = needed
        for name in waiting:
            self._refuse(line, f"{section.name} {name}", problems[name])

    def _removed(self, section: Section, stored: dict[str, Any]) -> str:
        """Remove one, given as a file shows it; why not, if not."""
        keys = [stored[key] for key in section.keys]
        row = section.row_named(keys)
        # A queue's consumer goes with its queue, and lives as long as it.
        if row is None or (isinstance(row, CronInstance) and row.queue_id is not None):
            return ""
        if isinstance(row, Queue) and (waiting := queue_removal.waiting_for(row)):
            return waiting
        try:
            with transaction.atomic():
                configuration.delete(row, self.author)
        except IntegrationError as problem:
            return str(problem)
        self.steps.append(Step("remove", section.word, section.named(keys)))
        return ""


def _in_order(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Queues after their error queues; what goes round in a circle is found by its own check."""
    waiting: defaultdict[str | None, list[Entry]] = defaultdict(list)
    named = _names(entries)
    free: deque[Entry] = deque()
    for entry in entries:
        error_queue = entry.text("error_queue")
        (waiting[error_queue] if error_queue in named else free).append(entry)
    while free:
        entry = free.popleft()
        yield entry
        free.extend(waiting.pop(entry.text("name"), ()))
    yield from chain.from_iterable(waiting.values())


def _names(entries: Iterable[Entry]) -> set[str | None]:
    return {entry.text("name") for entry in entries} - {None}


def _name(section: Section, entry: Entry) -> str | None:
    """Return the entry's name; None where it does not say."""
    values = [entry.text(key) for key in section.keys]
    return section.named(values) if all(values) else None


def _row(section: Section, entry: Entry) -> Any:
    row = section.row_named([entry.values[key].value for key in section.keys])
    if row is None and section.model is CronInstance:
        row = _consumer(entry)
    return row or section.model()


def _consumer(entry: Entry) -> CronInstance | None:
    """A queue's consumer came with the queue; an entry of another name renames it."""
    task, queue = entry.text("task"), entry.text("queue")
    if task not in CONSUMERS or queue is None:
        return None
    return CronInstance.objects.filter(task=task, queue__name=queue).first()


def _differs(column: facts.Column, was: models.Model, row: models.Model) -> bool:
    return facts.differs(column, getattr(was, column.attname), getattr(row, column.attname))


def _given_away(was: models.Model, row: models.Model) -> Iterator[str]:
    """Yield the secret parameters that a cron task would take over from another one."""
    if not isinstance(was, CronInstance) or not isinstance(row, CronInstance):
        return
    if was.task != row.task:
        for name, value in sorted(row.parameters.items()):
            if is_sealed(value) and was.parameters.get(name) == value:
                yield f"parameters.{name}"


def _take_over(section: Section, row: models.Model, was: models.Model | None) -> None:
    """Lock the stored row, and take over what somebody changed of it meanwhile.

    Also what no file speaks of, such as a pause; of what the file changes the file counts.
    """
    rows = section.model._default_manager.select_for_update()
    now = None if was is None else rows.filter(pk=was.pk).first()
    if was is None or now is None:
        return
    for column in settable(section.model):
        old, new = (getattr(one, column.attname) for one in (was, now))
        if old != new and getattr(row, column.attname) == old:
            setattr(row, column.attname, new)


def _judge(row: models.Model, was: Any) -> None:
    if isinstance(row, Queue) and was is not None and was.partitions.exists():
        moved = [name for name in STARTS if getattr(row, name) != getattr(was, name)]
        if moved:
            raise ValidationError(dict.fromkeys(moved, BEGUN))
    if isinstance(row, Queue) and not row.start_from and _is_at_jms(row):
        # As the form has it: a broker hands out what waits, and there is nothing to choose.
        row.start_from = Queue.StartFrom.BEGINNING
    row.full_clean()
    if isinstance(row, Queue):
        # Its topic is looked at by the first run, and by Flow: a file needs no broker.
        registration.check(row, has_topic=False)


def _is_at_jms(queue: Queue) -> bool:
    return hasattr(queue, "provider") and queue.provider.is_jms


def _differences(subject: _Subject, after: dict[str, Any]) -> Iterator[Difference]:
    row, was = subject.row, subject.was
    for name, column in subject.section.columns.items():
        old, new = (subject.stored or {}).get(name), after[name]
        if isinstance(column, SecretField):
            is_anew = was is not None and _differs(column, was, row)
            new = "set anew" if new and old and is_anew else "set" if new and not old else new
        elif isinstance(column, models.JSONField) and was is not None and old == new:
            beside = masked(getattr(row, name), getattr(was, name))
            new = beside if beside != masked(getattr(row, name)) else new
        if old != new:
            yield Difference(name, old, new, is_default=_is_default(subject, name))


def _is_default(subject: _Subject, name: str) -> bool:
    """Return whether nobody said this of a new entry: neither its file nor what stored it."""
    section = subject.section
    if subject.stored is not None or name in {*section.keys, *subject.entry.values}:
        return False
    column = section.columns[name]
    return not facts.differs(column, column.get_default(), getattr(subject.row, column.attname))
