"""The house keeps its shape: sizes, rooms, doors."""

import ast
import re
import subprocess
import sys

import pytest
from django.conf import global_settings
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AddIndex, RemoveIndex

from tests.architecture.sources import (
    ROOT,
    SHIPPED,
    functions,
    imported,
    modules,
    parsed,
    text,
    tracked,
)

pytestmark = pytest.mark.fast

THIS = "tests/architecture/test_house.py"
MAIN_ROAD = "integration/delivery/run.py"
READS_ENVIRONMENT = re.compile(
    r"config/(celery|wsgi)\.py|sluice/(celery|env)\.py|sluice_cli/asking\.py|manage\.py|"
    r"(tests|devstack|bench)/.*"
)
# To walk through the trees of all modules takes seconds: what cannot be meant is passed over.
ENVIRONMENT = re.compile(r"environ|getenv|putenv")
DOCSTRING = re.compile(r"(\s|#.*\n)*r?\"\"\"\s*[^\s\"]")
OPENS_KAFKA = re.compile(r"(integration/kafka|tests|bench|devstack)/.*")
WORDS_OF_THE_WORKPLACE = re.compile(
    r"(?<![\w.])/(?:work|root|home)/\w|\bissue[s]? (?:no\. ?)?#?\d+\b|\B#\d{1,3}\b(?![\w;,)\"'])",
    re.IGNORECASE,
)
GROUP_REPEATED_POSSESSIVELY = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")
# An index that keeps its name cannot be built while the old one is there.
KEEP_NAMES = {("integration", "0002_key_order"), ("integration", "0012_shards")}
BANNED_NAMES = {"utils", "helpers", "common", "misc", "manager", "service", "base", "data", "info"}


def test_no_module_is_longer_than_400_lines():
    long = {name: source.count("\n") for name, source in modules(*SHIPPED, "tests")}
    assert not {name: lines for name, lines in long.items() if lines > 400}


def test_no_line_of_a_template_is_longer_than_160_characters():
    assert not [
        f"{name}: {line}"
        for name in tracked()
        if "templates/" in name
        for line in text(name).splitlines()
        if len(line) > 160
    ]


def test_no_pattern_repeats_a_group_possessively():
    # Python 3.11.0 to 3.11.4 match wrongly where such a group has a choice (CPython's gh-106052).
    assert not [
        f"{name}: {line.strip()}"
        for name, source in modules(*SHIPPED)
        for line in source.splitlines()
        if GROUP_REPEATED_POSSESSIVELY.search(line)
    ]


def test_the_main_road_is_short():
    source = text(MAIN_ROAD)
    assert source.count("\n") <= 120
    for function in functions(source):
        assert function.end_lineno is not None
        lines = function.end_lineno - function.lineno + 1
        assert lines <= 25, f"{function.name} has {lines} lines"


def test_the_page_of_the_architecture_is_one_page():
    lines = text("ARCHITECTURE.md").splitlines()
    assert len(lines) <= 110
    assert not [line for line in lines if len(line) > 120]


def test_every_module_begins_with_what_it_is():
    silent = [
        name for name, source in modules(*SHIPPED) if source.strip() and not DOCSTRING.match(source)
    ]
    assert not silent


def test_no_module_is_named_after_nothing():
    names = {name: name.rsplit("/", 1)[-1].removesuffix(".py") for name, _ in modules(*SHIPPED)}
    assert not [path for path, name in names.items() if name in BANNED_NAMES]


@pytest.mark.parametrize(
    "module",
    [
        name.removesuffix(".py").replace("/", ".")
        for name, _ in modules("integration/policy")
        if not name.endswith("__init__.py")
    ],
)
def test_policy_is_pure(module):
    """In a fresh interpreter, importing it brings neither Django nor Kafka nor Celery."""
    check = (
        f"import sys, {module}; "
        "print([m for m in ('django', 'confluent_kafka', 'celery', 'psycopg') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_environment_is_read_in_one_place():
    readers = [
        name
        for name, source in modules(*SHIPPED, "manage.py", "tests")
        if ENVIRONMENT.search(source) and "environ" in _attributes_of_os(source)
    ]
    assert "sluice/env.py" in readers
    assert not [name for name in readers if not READS_ENVIRONMENT.fullmatch(name)]


def _attributes_of_os(source: str) -> set[str]:
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os":
                found.add("environ" if node.attr in {"environ", "getenv", "putenv"} else node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found |= {"environ" for alias in node.names if alias.name in {"environ", "getenv"}}
    return found


def test_one_room_opens_the_door_to_kafka():
    named = [(name, s) for name, s in modules(*SHIPPED, "tests") if "confluent_kafka" in s]
    users = [name for name, source in named if "confluent_kafka" in imported(source)]
    assert any(name.startswith("integration/kafka/") for name in users)
    assert not [name for name in users if not OPENS_KAFKA.fullmatch(name)]


# Whom the console shows what is the console's own; everything else is asked for.
KEEPS_PEOPLE = re.compile(r"console/(people/|layout/access\.py$)")


def test_pages_neither_query_nor_save():
    """Views build a form or a filter, call a selector or an action, and render."""
    views = [(name, source) for name, source in modules("console") if not KEEPS_PEOPLE.match(name)]
    assert views
    direct = re.compile(r"\.objects\b|(?<!configuration)\.save\(")
    assert not [name for name, source in views if direct.search(source)]


def test_what_people_set_up_is_stored_in_one_place():
    """It asks whether what a masking rule hides would be seen; nobody else would."""
    views = [(name, source) for name, source in modules("console") if not KEEPS_PEOPLE.match(name)]
    by_row = re.compile(r"\bconfiguration\.(save|delete)\(")
    assert sorted(name for name, source in views if by_row.search(source)) == [
        "console/forms/setup_form.py",
        "console/setup/pages.py",
    ]
    by_form = [name for name, source in views if re.search(r"\bform\.saved\(", source)]
    assert by_form == ["console/setup/pages.py"]


def test_templates_do_not_query():
    pages = [name for name in tracked() if name.startswith("console/templates/")]
    assert pages
    assert not [name for name in pages if ".objects" in text(name)]


def test_the_project_speaks_of_itself_alone():
    mentions = []
    for name in tracked():
        if name.startswith(("requirements", "frontend/package-lock")) or name == THIS:
            continue
        try:
            lines = text(name).splitlines()
        except UnicodeDecodeError:
            continue
        mentions += [
            f"{name}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(lines, 1)
            if WORDS_OF_THE_WORKPLACE.search(line)
        ]
    assert not mentions


SETTINGS_FROM_DJANGO = frozenset({*dir(global_settings), "SETTINGS_MODULE"})


def test_every_setting_that_is_read_is_declared():
    declared = {
        target.id
        for node in ast.walk(parsed(text("config/settings.py")))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    # The names that sluice_settings adds to any project's.
    declared |= {
        node.value
        for node in ast.walk(parsed(text("sluice/settings.py")))
        if isinstance(node, ast.Constant) and str(node.value).startswith("SLUICE_")
    }
    read = {
        (name, node.attr)
        for name, source in modules(*SHIPPED)
        if "settings." in source
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "settings"
        and node.attr.isupper()
    }
    assert {setting for _, setting in read} > {"SLUICE_ENGINE", "SLUICE_LEASE_SECONDS"}
    assert not {one for one in read if one[1] not in declared | SETTINGS_FROM_DJANGO}
    guessed = [name for name, source in modules(*SHIPPED) if "getattr(settings" in source]
    assert not guessed, "a setting with a second default hides from config/settings.py"


def test_lock_classes_are_named_and_not_written_as_numbers():
    number = re.compile(r"classid\s*(=|IN \()\s*'?\d")
    assert number.search("AND granted AND classid = 20001 AND objsubid = 2")
    assert not [name for name, source in modules(*SHIPPED) if number.search(source)]


def test_an_index_is_built_before_another_one_is_dropped():
    """Nobody can read a table from the drop of an index until the end of the migration."""
    late = []
    for place, migration in MigrationLoader(None).disk_migrations.items():
        dropped = set()
        for operation in migration.operations:
            if isinstance(operation, RemoveIndex):
                dropped.add(operation.model_name)
            elif isinstance(operation, AddIndex) and operation.model_name in dropped:
                late.append(place)
    assert set(late) - KEEP_NAMES == set()
