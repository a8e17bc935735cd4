"""The image: what is copied into it is there, let in, enough to start, and nothing else."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deployed import OURS, PINNED, ROOT, SERVICES, instructions, of
from tests.unit.test_env import example

pytestmark = pytest.mark.fast


def test_the_stages_are_named_and_pinned() -> None:
    stages = dict(reversed(rest.split(" AS ")) for rest in of("FROM"))
    assert list(stages) == ["frontend", "packages", "connectors", "code", "spark", "sluice"]
    assert all(PINNED.fullmatch(base) or base in stages for base in stages.values())
    assert {SERVICES[name]["build"]["target"] for name in OURS} == {"sluice", "spark"}


def test_the_image_with_spark_has_all_that_the_other_has() -> None:
    stages = dict(reversed(rest.split(" AS ")) for rest in of("FROM"))
    assert stages["spark"] == stages["sluice"] == "code"
    assert any(rest.split()[-2:] == ["-r", "/build/requirements.txt"] for rest in of("RUN"))
    checked = next(rest for rest in of("RUN") if "ivy.xml" in rest)
    assert "sha256sum --check" in checked
    assert [SERVICES[name]["build"]["target"] for name in OURS].count("spark") == 1


def test_the_image_does_not_run_as_root() -> None:
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", of("USER")[-1])
    after = [name for name, _ in instructions()]
    assert after.index("USER") > after.index("COPY")
    assert "RUN" not in after[after.index("USER") :]


def copied_from_here() -> list[tuple[list[str], str]]:
    """(sources, target) of every COPY that takes from the checkout."""
    found = [rest.split() for rest in of("COPY") if not rest.startswith("--from")]
    return [(words[:-1], words[-1]) for words in found]


def ignored(source: str) -> bool:
    """Whether .dockerignore keeps the file out; the last line that fits decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        below = source.startswith(f"{pattern}/")
        anywhere = pattern.startswith("**/") and fnmatch.fnmatch(
            source.rsplit("/", 1)[-1], pattern.removeprefix("**/")
        )
        if pattern in {"*", source} or below or anywhere:
            verdict = not line.startswith("!")
    return verdict


def test_every_copied_source_exists_and_is_let_in() -> None:
    sources = [source for sources, _ in copied_from_here() for source in sources]
    assert len(sources) > 8
    assert not [source for source in sources if not (ROOT / source).exists()]
    assert not [source for source in sources if ignored(source)]


@pytest.mark.parametrize(
    "source", [".env", ".git/config", ".devstack/keys.json", "tests/conftest.py", "devstack/app.py"]
)
def test_no_key_and_nothing_of_development_is_let_in(source: str) -> None:
    assert ignored(source)
    assert ignored("console/__pycache__")


def test_what_is_copied_is_enough_to_start(tmp_path: Path) -> None:
    """The last stage's own files, without the rest of the checkout: everything imports."""
    for sources, target in copied_from_here():
        for source in sources:
            if target.startswith("/") or source.startswith("frontend/"):
                continue
            place = tmp_path / (source if target.endswith("/") else target)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, place)
    variables = {name: value for name, value in os.environ.items() if "SLUICE" not in name}
    inherited = {**variables, **example(), "DJANGO_SETTINGS_MODULE": "config.settings"}
    program = (
        "import django; django.setup(); import config.celery, config.wsgi, crontasks.alive, "
        "crontasks.beat, crontasks.tasks, crontasks.bulk.driver, integration.runs.queues; "
        "import sys; assert 'console.urls' in sys.modules, 'pages are loaded before a request'; "
        "from django.core.management import call_command; "
        "call_command('check'); call_command('collectstatic', interactive=False, verbosity=0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=inherited,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    collected = [file.name for file in (tmp_path / "static" / "console").iterdir()]
    assert any(re.fullmatch(r"console\.[0-9a-f]{12}\.css\.gz", name) for name in collected)


def test_the_image_gets_every_pinned_package_but_spark() -> None:
    script = re.findall(r"-e '([^']+)'", next(rest for rest in of("RUN") if "sed" in rest))
    done = subprocess.run(
        ["sed", *(word for line in script for word in ("-e", line)), "requirements.txt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = re.compile(r"^([a-zA-Z0-9_.\[\]-]+)==", re.MULTILINE)
    locked = names.findall((ROOT / "requirements.txt").read_text())
    kept = names.findall(done.stdout)
    assert set(locked) - set(kept) == {"pyspark", "py4j"}
    # Each one is still followed by its hashes, and no hash stands alone.
    assert len(re.findall(r"^\S", done.stdout, re.MULTILINE)) == len(kept)
    assert not re.search(r"[^\\]\n    --hash", done.stdout)
