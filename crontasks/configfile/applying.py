"""Makes the configuration what a file says: the plan and its carrying out are one walk.

A plan walks in a transaction that is rolled back, so that it finds every mistake that applying
would find, and applying does exactly what was planned.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, models, transaction

from crontasks.configfile import facts
from crontasks.configfile.kinds import KINDS, SECTIONS, Kind
from crontasks.configfile.problems import ConfigFileError, Mistake
from crontasks.configfile.reading import Document, Entry, Given, read
from crontasks.configfile.secrets import Lookup
from crontasks.instances.actions import CONSUMERS
from crontasks.models import CronInstance
from integration import registration
from integration.actions import configuration, queue_removal
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.models import Queue
from integration.models.fields import SecretField
from integration.sealed import masked
from integration.store.locks import LockClass

STARTS: Final = ("start_from", "start_time", "start_group")
BEGUN: Final = (
    "The queue has begun to read, and where it began was decided once. Write what is stored, or "
    "leave the field out."
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field, as the file shows it before and after."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is created, changed or removed."""

    action: str
    word: str
    name: str
    differences: tuple[Difference, ...] = ()


@dataclass(slots=True, kw_only=True)
class Walk:
    """One walk through a file. `prune` removes what its sections do not name."""

    document: Document
    author: Author
    lookup: Lookup
    prune: bool = False
    steps: list[Step] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def refuse(self, line: int, place: str, text: str) -> None:
        self.mistakes.append(Mistake(line, place, text))


def plan(content: bytes, *, lookup: Lookup, author: Author, prune: bool = False) -> list[Step]:
    """What applying the file would do; nothing is changed. Raises ConfigFileError."""
    walk = Walk(document=read(content, SECTIONS), author=author, lookup=lookup, prune=prune)
    with transaction.atomic():
        _walk(walk)
        transaction.set_rollback(True)
    return _finished(walk)


def apply(content: bytes, *, lookup: Lookup, author: Author, prune: bool = False) -> list[Step]:
    """Carry the plan out, in one transaction with its audit rows. Raises ConfigFileError."""
    walk = Walk(document=read(content, SECTIONS), author=author, lookup=lookup, prune=prune)
    with transaction.atomic():
        _walk(walk)
        return _finished(walk)


def _finished(walk: Walk) -> list[Step]:
    if walk.mistakes:
        raise ConfigFileError(walk.mistakes)
    return walk.steps


def _walk(walk: Walk) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LockClass.CONFIGURATION,))
    known = {kind.section: _stored(kind) for kind in KINDS}
    for kind in KINDS:
        _, entries = walk.document.sections.get(kind.section, (0, ()))
        for entry in _in_order(kind, entries, known[kind.section]):
            _carry(walk, kind, entry, known[kind.section])
    if walk.prune and not walk.mistakes:
        for kind in reversed(KINDS):
            _prune(walk, kind, known[kind.section])


def _stored(kind: Kind) -> dict[str, dict[str, Any]]:
    rows = kind.model._default_manager.all()
    return {kind.name_of(row): facts.shown(kind, row) for row in rows}


def _in_order(kind: Kind, entries: tuple[Entry, ...], stored: dict[str, Any]) -> Iterator[Entry]:
    """Queues after their error queues; what goes round in a circle is told by its own check."""
    waiting, done = list(entries), set(stored) if kind.model is not Queue else set()
    named = set(_names(entries))
    while waiting and kind.model is Queue:
        free = [one for one in waiting if _target(one) not in named - done]
        if not free:
            break
        yield from free
        done |= set(_names(free))
        waiting = [one for one in waiting if one not in free]
    yield from waiting


def _names(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        given = entry.values.get("name")
        if given is not None and isinstance(given.value, str):
            yield given.value


def _target(entry: Entry) -> str | None:
    given = entry.values.get("error_queue")
    return given.value if given is not None and isinstance(given.value, str) else None


def _carry(walk: Walk, kind: Kind, entry: Entry, known: dict[str, dict[str, Any]]) -> None:
    """Bring one thing to what its entry says."""
    name = _name(kind, entry)
    if name is None:
        wanted = " and its ".join(kind.keys)
        walk.refuse(entry.line, kind.section, f"Every entry begins with its {wanted}, a text.")
        return
    place = f"{kind.section} {name[:80]}"
    if (kind.section, name) in walk.seen:
        walk.refuse(entry.values[kind.key].line, place, "This name is given twice.")
        return
    walk.seen.add((kind.section, name))
    before = len(walk.mistakes)
    row, was = _row(kind, entry), None
    if row.pk is not None:
        was = kind.model._default_manager.get(pk=row.pk)
    _fill(walk, kind, entry, row, place)
    if len(walk.mistakes) == before:
        _keep(walk, kind, entry, (row, was, known.get(name), place))


def _name(kind: Kind, entry: Entry) -> str | None:
    """What the entry is called; None where that cannot be told."""
    given = [entry.values.get(key) for key in kind.keys]
    values = [one.value for one in given if one is not None]
    is_whole = len(values) == len(given) and all(isinstance(v, str) and v for v in values)
    return kind.named(values) if is_whole else None


def _row(kind: Kind, entry: Entry) -> Any:
    found: models.Model | None = kind.rows_named([entry.values[k].value for k in kind.keys]).first()
    if found is None and kind.model is CronInstance:
        found = _consumer(entry)
    return found or kind.model()


def _consumer(entry: Entry) -> CronInstance | None:
    """A queue's consumer came with the queue; an entry of another name renames it."""
    task, queue = (entry.values.get(name) for name in ("task", "queue"))
    if task is None or queue is None:
        return None
    if not (isinstance(task.value, str) and isinstance(queue.value, str)):
        return None
    if task.value not in CONSUMERS:
        return None
    return CronInstance.objects.filter(task=task.value, queue__name=queue.value).first()


def _fill(walk: Walk, kind: Kind, entry: Entry, row: Any, place: str) -> None:
    # Parameters are read by the task that the same entry names.
    ordered = sorted(entry.values.items(), key=lambda one: one[0] == "parameters")
    for name, given in ordered:
        column = kind.columns.get(name)
        if column is None:
            known = ", ".join(kind.columns)
            walk.refuse(given.line, f"{place}, {name}", f"There is no such field; known: {known}.")
            continue
        try:
            setattr(row, name, facts.meant(row, column, given, walk.lookup))
        except (ValueError, IntegrationError) as problem:
            walk.refuse(given.line, f"{place}, {name}", str(problem))


def _keep(walk: Walk, kind: Kind, entry: Entry, about: tuple[Any, Any, Any, str]) -> None:
    """Judge the row as its form does and store it, where something differs."""
    row, was, known, place = about
    differing = [c for n, c in kind.columns.items() if was is None or _differs(c, was, row)]
    if was is not None and not differing and known is not None:
        return
    try:
        with transaction.atomic():
            _judge(row, was)
            configuration.save(row, walk.author)
    except ValidationError as problem:
        _tell(walk, entry, place, problem)
        return
    except (IntegrityError, IntegrationError) as problem:
        walk.refuse(entry.line, place, str(problem).splitlines()[0])
        return
    after = facts.shown(kind, kind.model._default_manager.get(pk=row.pk))
    differences = tuple(_differences(kind, known or {}, after, was, row))
    action = "create" if known is None else "change"
    if differences:
        walk.steps.append(
            Step(action, kind.word, kind.named([after[key] for key in kind.keys]), differences)
        )


def _differs(column: facts.Column, was: models.Model, row: models.Model) -> bool:
    return facts.differs(column, getattr(was, column.attname), getattr(row, column.attname))


def _judge(row: models.Model, was: Any) -> None:
    if isinstance(row, Queue) and was is not None and was.partitions.exists():
        moved = [name for name in STARTS if getattr(row, name) != getattr(was, name)]
        if moved:
            raise ValidationError(dict.fromkeys(moved, BEGUN))
    row.full_clean()
    if isinstance(row, Queue):
        # Its topic is looked at by the first run, and by Flow: a file needs no broker.
        registration.check(row, has_topic=False)


def _tell(walk: Walk, entry: Entry, place: str, problem: ValidationError) -> None:
    """Each mistake at the line of its field, or of the entry when the file does not name it."""
    for name, sentences in problem.message_dict.items():
        given = entry.values.get(name, Given(entry.line, None))
        where = place if name == "__all__" else f"{place}, {name}"
        for sentence in sentences:
            walk.refuse(given.line, where, sentence)


def _differences(
    kind: Kind, before: dict[str, Any], after: dict[str, Any], was: Any, row: Any
) -> Iterator[Difference]:
    for name, column in kind.columns.items():
        old, new = before.get(name), after[name]
        if isinstance(column, SecretField):
            is_anew = was is not None and _differs(column, was, row)
            new = "set anew" if new and old and is_anew else "set" if new and not old else new
        elif isinstance(column, models.JSONField) and was is not None and old == new:
            told = masked(getattr(row, name), getattr(was, name))
            new = told if told != masked(getattr(row, name)) else new
        if old != new:
            yield Difference(name, old, new)


def _prune(walk: Walk, kind: Kind, known: dict[str, dict[str, Any]]) -> None:
    if kind.section not in walk.document.sections:
        return
    line, entries = walk.document.sections[kind.section]
    named = {_name(kind, entry) for entry in entries}
    waiting, problems = sorted(set(known) - named, reverse=True), {}
    while waiting:
        problems = {name: _removed(walk, kind, known[name]) for name in waiting}
        held = [name for name in waiting if problems[name]]
        if len(held) == len(waiting):
            break
        # One of them may have been what another was needed by.
        waiting = held
    for name in waiting:
        walk.refuse(line, f"{kind.section} {name}", problems[name])


def _removed(walk: Walk, kind: Kind, known: dict[str, Any]) -> str:
    """Remove one, given as a file shows it; why not, if not."""
    keys = [known[key] for key in kind.keys]
    row = kind.rows_named(keys).first()
    # A queue's consumer goes with its queue, and lives as long as it.
    if row is None or (isinstance(row, CronInstance) and row.queue_id is not None):
        return ""
    if isinstance(row, Queue) and (waiting := queue_removal.waiting_for(row)):
        return waiting
    try:
        with transaction.atomic():
            configuration.delete(row, walk.author)
    except IntegrationError as problem:
        return str(problem)
    walk.steps.append(Step("remove", kind.word, kind.named(keys)))
    return ""
