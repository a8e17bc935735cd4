"""Pages of the site that are no files of docs/: the root's own, and generated ones.

MkDocs calls `on_files` and `on_page_markdown`; see mkdocs.yml. The generated pages are made from
what they tell of (variables, commands, cron tasks), so that they cannot go stale.
"""

import os
import posixpath
import re
from argparse import SUPPRESS
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import django
import site_reference
from django.core.management import get_commands, load_command_class
from django.utils.module_loading import import_string
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
# Pages of the root, which the repository shows beside docs/.
OF_ROOT: Final = {
    "README.md": "project.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
SETTINGS: Final = "reference/settings.md"
FIELDS: Final = "reference/configuration-file.md"
# What a page of the checkout links to, and the page that tells of it on the site.
ELSEWHERE: Final = OF_ROOT | {".env.example": SETTINGS, "crontasks/configfile/sections.py": FIELDS}
OUR_APPS: Final = ("console", "crontasks", "integration")
# What every command takes.
OF_DJANGO: Final = frozenset(
    {"help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color"}
    | {"force_color", "skip_checks"}
)
_LINK: Final = re.compile(r"(?<=\]\()(?P<to>[^)#\s]*)(?P<anchor>#[^)\s]*)?(?=\))")
_VARIABLE: Final = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>.*)")
_CHAPTER: Final = re.compile(r"# --- (?P<title>.*?) -*$")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are no files of docs/."""
    made = {name: (ROOT / source).read_text() for source, name in OF_ROOT.items()}
    made[SETTINGS] = settings((ROOT / ".env.example").read_text())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.settings")
    django.setup()
    made["reference/commands.md"] = commands()
    made["reference/cron-tasks.md"] = cron_tasks()
    made["reference/metrics.md"] = site_reference.metrics((ROOT / "docs/operations.md").read_text())
    made["reference/operator-api.md"] = site_reference.operator_api(
        import_string("sluice_cli.operations.every")()
    )
    made["reference/handlers.md"] = site_reference.handlers(import_module("integration.handlers"))
    form = import_module("console.setup.queues.fields")
    made[FIELDS] = site_reference.configuration(
        import_string("crontasks.configfile.sections.SECTIONS"), form.LABELS, form.HELPS
    )
    made["decisions/README.md"] = decisions(sorted((ROOT / "docs" / "decisions").glob("0*.md")))
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Have links that leave docs/, or come from the root, lead to the pages of the site."""
    where = page.file.src_uri
    is_of_root = where in OF_ROOT.values()
    here = "" if is_of_root else posixpath.dirname(where)

    def onward(link: re.Match[str]) -> str:
        to, anchor = link["to"], link["anchor"] or ""
        if not to or ":" in to:
            return link[0]
        path = posixpath.normpath(posixpath.join("" if is_of_root else f"docs/{here}", to))
        return _page(path, here) + anchor

    return _LINK.sub(onward, markdown)


def _page(path: str, here: str) -> str:
    """The link to what lies at this path of the repository, from a page in this folder."""
    target = ELSEWHERE.get(path, path.removeprefix("docs/"))
    if target == "decisions":
        target = "decisions/README.md"
    return posixpath.relpath(target, here or ".")


def settings(example: str) -> str:
    """A page of .env.example: its chapters, and each variable below what is said of it."""
    page = [
        "# Settings",
        "Every variable Sluice reads, with a value that works on a laptop.",
    ]
    said: list[str] = []
    for line in example.splitlines():
        if chapter := _CHAPTER.match(line):
            page.append(f"## {chapter['title']}")
            said = []
        elif variable := _VARIABLE.match(line):
            page += [f"### `{variable['name']}`", *_paragraphs(said)]
            page.append(f"```\n{line}\n```")
            said = []
        elif line.startswith("#"):
            said.append(line[1:])
        else:
            said = []
    return "\n\n".join(page) + "\n"


def _paragraphs(said: Sequence[str]) -> Iterator[str]:
    """Comments as text; a line that is further in is a command."""
    for line in said:
        if line.startswith("   "):
            yield f"```\n{line.strip()}\n```"
    text = " ".join(line.strip() for line in said if not line.startswith("   "))
    if text:
        yield text.replace(" Default: ", "\n\nDefault: ")


def commands() -> str:
    """A page of the commands of manage.py that are ours, as `--help` tells of them."""
    page = ["# Commands", "Each is called as `manage.py NAME`; `--help` says the same."]
    for name, app in sorted(get_commands().items()):
        if str(app).split(".")[0] not in OUR_APPS:
            continue
        parser = load_command_class(str(app), name).create_parser("manage.py", name)
        for action in parser._actions:  # noqa: SLF001 - argparse tells of them by nothing else
            if action.dest in OF_DJANGO:
                action.help = SUPPRESS
        page += [f"## `{name}`", f"```\n{parser.format_help().strip()}\n```"]
    return "\n\n".join(page) + "\n"


def cron_tasks() -> str:
    """A page of the cron tasks that come with Sluice, and of their parameters."""
    registry = import_string("crontasks.definitions.registry")
    describe = import_string("crontasks.parameters.describe")
    page = ["# Cron tasks", "What can be scheduled under *Cron tasks*, with its parameters."]
    for definition in registry:
        if definition.origin.startswith("crontasks."):
            page += [f"## {definition.title}", f"`{definition.name}`. {definition.description}"]
            page += [
                f"- **{one.label}**, `{one.name}`{_default(one)}{_text(one)}"
                for one in describe(definition.task.parameters)
            ]
    return "\n\n".join(page) + "\n"


def _default(one: Any) -> str:
    if one.is_required:
        return ", required"
    return "" if one.default in {None, ""} else f", {one.default}"


def _text(one: Any) -> str:
    return f": {one.text}" if one.text else ""


def decisions(found: Sequence[Path]) -> str:
    """A page that lists the decisions."""
    page = ["# Decisions", "Why it is built so, and what was given up."]
    for path in found:
        title = path.read_text().splitlines()[0].lstrip("# ")
        page.append(f"- [{title}]({path.name})")
    return "\n\n".join(page[:2]) + "\n\n" + "\n".join(page[2:]) + "\n"
