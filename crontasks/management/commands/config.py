"""`manage.py config export | plan | apply`: the configuration as a file."""

import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.configfile import applying
from crontasks.configfile.applying import Difference, Step
from crontasks.configfile.facts import export
from crontasks.configfile.reading import MAX_BYTES, ConfigFileError
from crontasks.health.flow_set_up import unfit_topics
from integration.actions.configuration import Author
from integration.counting import so_many
from integration.models import Queue
from sluice.env import referred

MISTAKES: Final = 1
CHANGES: Final = 2
SIGNS: Final = {"create": "+", "change": "~", "remove": "-"}
LONGEST_VALUE: Final = 120


class Command(BaseCommand):
    """Exit codes: 0 = nothing (more) to do, 1 = mistakes, 2 = a plan found changes."""

    help = (
        "Write what people set up (providers, systems, structures, services, endpoints, queues, "
        "channels with their targets, schedules) to a YAML file, tell what a file would change, or "
        "apply it. Secrets are references."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        out = verbs.add_parser("export", help="write everything to standard output")
        out.add_argument(
            "--secrets",
            choices=("kept", "env"),
            default="kept",
            help="how secrets are written: as “kept” (default), or as ${ENV:NAME}",
        )
        for verb, words in (
            ("plan", "tell what the file would change; exit code 2 when it would"),
            ("apply", "change it, in one transaction"),
        ):
            sub = verbs.add_parser(verb, help=words)
            sub.add_argument("file", help="the file, or - for standard input")
            sub.add_argument(
                "--prune", action="store_true", help="also remove what its sections do not name"
            )
            sub.add_argument(
                "--all",
                action="store_true",
                help="also tell the fields of what is new that the file leaves out",
            )
            sub.add_argument("--reason", default="", help="why, for the history of changes")
            sub.add_argument("--user", default="", help="who (default: the user of this system)")

    def handle(self, *_: object, verb: str, **options: Any) -> None:
        if verb == "export":
            self.stdout.write(export(references=options["secrets"] == "env"), ending="")
            return
        user = (options["user"] or getpass.getuser())[:100]
        author = Author(f"config apply ({user})", options["reason"])
        carry = applying.plan if verb == "plan" else applying.apply
        try:
            steps = carry(
                _content(options["file"]),
                lookup=referred,
                author=author,
                prune=options["prune"],
                may_redirect=True,
            )
        except ConfigFileError as problem:
            for mistake in problem.mistakes:
                self.stderr.write(str(mistake))
            raise CommandError(f"{problem.code}: {problem}", returncode=MISTAKES) from problem
        word = "to be done" if verb == "plan" else "done"
        self._tell(steps, word, with_defaults=options["all"])
        if verb == "plan" and steps:
            sys.exit(CHANGES)
        self._tell_of_topics(steps)

    def _tell_of_topics(self, steps: list[Step]) -> None:
        """A file makes no topics, and needs no cluster that answers: what is wanting is told."""
        word = str(Queue._meta.verbose_name)
        names = [one.name for one in steps if one.word == word and one.action != "remove"]
        queues = Queue.objects.filter(name__in=names).select_related("provider").order_by("name")
        topics = unfit_topics(queues)
        for sentence in topics.silent:
            self.stderr.write(sentence)
        for sentence in topics.unfit:
            self.stderr.write(f"{word} {sentence}")

    def _tell(self, steps: list[Step], word: str, *, with_defaults: bool) -> None:
        for step in steps:
            self.stdout.write(f"{SIGNS[step.action]} {step.word} {step.name}")
            told = [one for one in step.differences if with_defaults or not one.is_default]
            for line in (line for one in told for line in _lines(step, one)):
                self.stdout.write(f"    {line}")
            if left := len(step.differences) - len(told):
                self.stdout.write(f"    and {so_many(left, 'default')} (--all shows them)")
        if not steps:
            self.stdout.write("No changes.")
            return
        counts = {action: sum(s.action == action for s in steps) for action in SIGNS}
        counted = ", ".join(f"{count:,} {action}" for action, count in counts.items())
        self.stdout.write(f"{counted}: {word}.")


def _content(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise CommandError(f"{name} cannot be read: {problem.strerror}.") from problem


def _lines(step: Step, difference: Difference) -> Iterator[str]:
    """The field's own line; of one with members a line for each that differs, and never cut."""
    before, after = difference.before, difference.after
    is_new = step.action == "create"
    if is_new and isinstance(after, dict) and after:
        before = {}
    for name, old, new in _parts(difference.field, before, after):
        yield f"{name}: {_short(new)}" if is_new else f"{name}: {_short(old)} -> {_short(new)}"


def _parts(field: str, before: object, after: object) -> Iterator[tuple[str, object, object]]:
    """What differs; of a mapping only the members that do, by name."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield field, before, after
        return
    for name in sorted(before | after):
        if before.get(name) != after.get(name) or (name in before) != (name in after):
            yield from _parts(f"{field}.{name}", before.get(name), after.get(name))


def _short(value: object) -> str:
    """A long text of several lines, such as a certificate, is cut: nobody reads it here."""
    text = repr(value)
    is_long = isinstance(value, str) and "\n" in value and len(text) > LONGEST_VALUE
    return f"{text[:LONGEST_VALUE]}…" if is_long else text
