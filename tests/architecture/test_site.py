"""The documentation as a site: every link and anchor leads somewhere, and nothing is left out."""

from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from integration.handlers import __all__ as author_names
from sluice_cli.operations import every
from tests.support import pictures

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: strictly, so that a warning ends it."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


def test_every_page_is_made_and_no_link_is_broken(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert pages <= {path.stem for path in site.glob("*.html")}


def test_the_reference_tells_of_each_variable_command_and_cron_task(site: Path) -> None:
    settings, commands, cron_tasks = (
        (site / "reference" / f"{name}.html").read_text()
        for name in ("settings", "commands", "cron-tasks")
    )
    assert "SLUICE_DATABASE_URL" in settings
    assert "manage.py check_flow" in commands
    assert "--settings" not in commands
    assert "transaction_seconds" in cron_tasks


def test_the_reference_tells_of_each_operation_figure_and_name_for_handlers(site: Path) -> None:
    api, metrics, handlers = (
        (site / "reference" / f"{name}.html").read_text()
        for name in ("operator-api", "metrics", "handlers")
    )
    assert all(f"{one.method} {one.path}" in api for one in every())
    assert "sluice_queue_lag" in metrics
    assert "(../" not in metrics
    assert not [name for name in author_names if f"<code>{name}</code>" not in handlers]


def test_the_reference_tells_how_each_field_of_the_configuration_file_is_written(
    site: Path,
) -> None:
    fields = (site / "reference" / "configuration-file.html").read_text()
    assert "a list or a mapping" not in fields
    assert "<code>{password: kept}</code>" in fields
    assert "<code>amqp</code> (<em>JMS queue or topic (AMQP 1.0)</em>)" in fields
    assert '<a href="cron-tasks.html">cron task</a>' in fields
    assert '<a href="../endpoints.html">type</a>' in fields


def test_each_picture_is_on_a_page_taken_by_the_script_and_small() -> None:
    taken = {path.stem: path.stat().st_size for path in pictures.IMAGES.glob("*.png")}
    assert set(taken) == pictures.EVERY
    assert max(taken.values()) <= pictures.MOST_BYTES
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    assert not [name for name in taken if f"images/{name}.png)" not in text]


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert 'src="http' not in page
    assert '<link rel="stylesheet" href="http' not in page
