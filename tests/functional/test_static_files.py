"""Static files as an installation has them: collected, hashed, compressed, kept by browsers."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client, RequestFactory
from whitenoise.middleware import WhiteNoiseMiddleware

from config import settings as shipped
from console.layout.static_files import MissingStaticFileError

NAMED = re.compile(r'(?:href|src)="(/static/[^"]+)"')
HASHED = re.compile(r"\.[0-9a-f]{12}\.\w+$")


@pytest.fixture
def root(tmp_path: Path, settings: Any) -> Path:
    """An empty folder, with the storage of the shipped settings."""
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STORAGES = shipped.STORAGES
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = False
    return tmp_path / "static"


def collect() -> None:
    call_command("collectstatic", interactive=False, verbosity=0)


def answer_of(address: str, encoding: str = "gzip") -> HttpResponse:
    """What the shipped middleware answers to a browser."""
    server = WhiteNoiseMiddleware(lambda _: HttpResponse(status=404))
    found: HttpResponse = server(RequestFactory().get(address, HTTP_ACCEPT_ENCODING=encoding))
    return found


@pytest.mark.servers
@pytest.mark.django_db
def test_every_file_of_a_page_is_hashed_compressed_and_kept_for_good(root: Path) -> None:
    collect()
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    pages = [client.get(path) for path in ("/login/", "/", "/queues/", "/admin/")]
    found = {address for page in pages for address in NAMED.findall(page.text)}
    assert {"tabler", "console", "htmx", "live", "theme", "icon", "base"} <= {
        Path(one).name.partition(".")[0] for one in found
    }
    for address in found:
        assert HASHED.search(address), address
        answer = answer_of(address)
        assert answer.status_code == 200, address
        assert "immutable" in answer["Cache-Control"], address
        answer.close()
    css = next(one for one in found if "/tabler" in one)
    assert answer_of(css)["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in answer_of(css, "identity")
    assert answer_of("/static/console/console.css").status_code == 200


@pytest.mark.fast
def test_a_file_that_a_template_names_and_nobody_has_ends_the_build(
    root: Path, tmp_path: Path, settings: Any
) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "page.html").write_text("{% load static %}{% static 'console/none.css' %}")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [folder]}]
    with pytest.raises(MissingStaticFileError, match=r"page\.html.*console/none\.css"):
        collect()


@pytest.mark.fast
def test_a_page_never_fails_by_a_file_that_was_not_collected(root: Path) -> None:
    assert not root.exists()
    assert staticfiles_storage.url("console/console.css") == "/static/console/console.css"
    assert staticfiles_storage.url("console/none.css") == "/static/console/none.css"
    assert not settings.DEBUG
