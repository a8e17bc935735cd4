"""The console below a prefix of another project, among that project's own pages and settings."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from asgiref.sync import async_to_sync
from click.testing import CliRunner
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import get_script_prefix, get_urlconf, reverse, set_script_prefix

from config import settings as shipped
from console.mounting import ADDRESSES, NEEDED
from console.people.company.rechecks import CHECKED
from console.templatetags.sluice import queue_page
from devstack.servers import Servers
from sluice_cli.asking import Connection
from sluice_cli.main import built
from tests.functional.test_console_access import HARMLESS
from tests.functional.test_console_directions import EVIL, SPELLING, is_spelt, planted
from tests.support.every_page import a_cluster_for_it, every_address, jms_pages
from tests.support.http_api import a_partner
from tests.support.identity_provider import IdentityProvider, came_back
from tests.support.operator_api import a_program, application
from tests.support.rows import PASSWORD, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(300)]

HOST = "tests.support.host_project"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
# Whatever a page leads to, sends to or loads.
LED_TO = re.compile(r"""\s(?:href|action|src|formaction|hx-[\w-]+|data-[\w-]+)=["']?(/[^"'\s>]*)""")
# Where a form of a page comes back to.
BACK_TO = re.compile(r'name="next" value="(/[^"]*)"')


@pytest.fixture
def host(settings: Any) -> Iterator[None]:
    """The settings of a German project that has its own way with nearly everything."""
    settings.ROOT_URLCONF = HOST
    settings.MIDDLEWARE = MIDDLEWARE
    settings.LOGIN_URL = settings.LOGIN_REDIRECT_URL = "/login/"
    settings.USE_I18N, settings.LANGUAGE_CODE, settings.TIME_ZONE = True, "de", "Europe/Berlin"
    settings.CSRF_FAILURE_VIEW = "django.views.csrf.csrf_failure"
    [engine] = shipped.TEMPLATES
    processors = engine["OPTIONS"]["context_processors"]
    frame = ["console.mounting.frame"]
    options = {"context_processors": [one for one in processors if "console" not in one] + frame}
    settings.TEMPLATES = [{**engine, "DIRS": [], "OPTIONS": options}]
    connections.settings["default"]["ATOMIC_REQUESTS"] = True
    yield
    connections.settings["default"]["ATOMIC_REQUESTS"] = False


def below_ops(world: dict[str, Any]) -> dict[str, str]:
    """The path of every address of the console, by name."""
    set_script_prefix("/ops/")
    try:
        with override_settings(ROOT_URLCONF=ADDRESSES):
            told = {one.name: one.path for one in every_address(world)}
            return told | {path: path for path in jms_pages(world)}
    finally:
        set_script_prefix("/")


@pytest.fixture
def administrator() -> Client:
    client = Client()
    client.force_login(a_person("Administrators"))
    return client


@pytest.mark.usefixtures("host", "unanswered")
def test_every_page_stays_below_the_prefix(servers: Servers, administrator: Client) -> None:
    """And obeys no control characters of partners: those that have their texts spell them out."""
    a_cluster_for_it(servers.kafka_bootstrap)
    astray, spelt, drawn = {}, set(), 0
    told = below_ops(planted())
    told["tracked-message"] += "?" + urlencode({"id": EVIL})
    for name, path in told.items():
        assert path.startswith("/ops/")
        answer = administrator.get(path)
        assert answer.status_code in HARMLESS, (name, answer.status_code)
        to = answer.get("Location", "")
        assert not to.startswith("/") or to.startswith("/ops/"), (name, to)
        if answer.streaming or "html" not in answer.get("Content-Type", ""):
            continue
        drawn += '<nav id="menu"' in answer.text
        spelt |= {name} if is_spelt(answer.text, name) else set()
        led = {*LED_TO.findall(answer.text), *BACK_TO.findall(answer.text)}
        outside = {one for one in led if not one.startswith(("/ops/", "/static/"))}
        if outside:
            astray[name] = outside
    assert not astray
    assert spelt >= SPELLING
    assert drawn > 40


def test_no_address_is_carried_from_one_prefix_to_another() -> None:
    path = queue_page("one")
    set_script_prefix("/ops/")
    try:
        assert queue_page("one") == f"/ops{path}"
    finally:
        set_script_prefix("/")


@pytest.mark.usefixtures("host")
def test_the_projects_own_names_and_pages_are_as_before(administrator: Client) -> None:
    assert administrator.get("/ops/queues/").status_code == 200
    assert (get_script_prefix(), get_urlconf()) == ("/", None)
    assert reverse("login") == "/login/"
    answer = administrator.get("/queues/")
    assert answer.text == "the project: /login/ /queues/"
    assert "Content-Security-Policy" not in answer
    assert administrator.get("/framed/").text == "<>"


@pytest.mark.usefixtures("host")
def test_a_process_that_answers_for_the_console_first_moves_no_files_of_the_project(
    administrator: Client, settings: Any
) -> None:
    # As new projects have them: Django keeps what they are when they are first asked for.
    settings.STATIC_URL, settings.MEDIA_URL = "static/", "media/"
    assert "/ops/static/" not in administrator.get("/ops/queues/").text
    assert (settings.STATIC_URL, settings.MEDIA_URL) == ("/static/", "/media/")


@pytest.mark.usefixtures("host")
def test_pages_are_english_and_in_universal_time_whatever_the_project_speaks(
    administrator: Client,
) -> None:
    answer = administrator.get("/ops/account/password/", headers={"accept-language": "de"})
    assert "Change my password" in answer.text
    assert "Old password" in answer.text
    assert "Passwort" not in answer.text
    assert "Content-Security-Policy" in answer


@pytest.mark.usefixtures("host", "valkey")
def test_people_log_in_at_the_consoles_own_door_and_come_back_below_the_prefix() -> None:
    person, client = a_person("Viewers"), Client()
    asked = client.get("/ops/queues/")
    assert asked["Location"] == "/ops/login/?next=/ops/queues/"
    typed = {"username": person.username, "password": PASSWORD}
    assert client.post("/ops/login/", typed)["Location"] == "/ops/"
    assert client.get("/ops/queues/").status_code == 200
    assert client.post("/ops/logout/")["Location"] == "/ops/login/"
    assert client.get("/ops/").status_code == 302


@pytest.mark.usefixtures("host", "valkey")
def test_the_company_login_comes_back_below_the_prefix_and_is_checked_there(
    idp: IdentityProvider, settings: Any
) -> None:
    settings.SLUICE_IS_GUEST = True
    client = Client()
    begun = client.get("/ops/login/company/?next=/ops/queues/")
    back = came_back(client, begun)
    assert back.startswith("/ops/login/company/callback/?")
    assert client.get(back)["Location"] == "/ops/queues/"
    assert client.get("/ops/queues/").status_code == 200
    session = client.session
    session[CHECKED] -= settings.SLUICE_OIDC_RECHECK_MINUTES * 60 + 1
    session.save()
    assert client.get("/ops/queues/")["Location"].startswith("/ops/login/company/?next=%2Fops%2F")
    assert client.get("/queues/").status_code == 200, "the project's own pages are not its affair"
    for path in ("/ops/account/sessions/", "/ops/account/second-factors/"):
        session[CHECKED] = int(time.time())
        session.save()
        assert client.get(path).status_code == 404


@pytest.mark.usefixtures("host")
def test_or_at_the_projects_where_it_says_so(settings: Any) -> None:
    settings.SLUICE_LOGIN_URL = "/login/"
    for path in ("/ops/queues/", "/ops/account/password/"):
        assert Client().get(path)["Location"] == f"/login/?next={path}"


@pytest.mark.usefixtures("host")
def test_a_forged_form_is_refused_by_the_consoles_own_page() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_person("Operators"))
    answer = client.post("/ops/theme/", {"theme": "dark"})
    assert answer.status_code == 403
    assert "The form is out of date" in answer.text
    page = client.get("/ops/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token is not None
    data = {"theme": "dark", "csrfmiddlewaretoken": token[1], "next": "/ops/queues/"}
    assert client.post("/ops/theme/", data)["Location"] == "/ops/queues/"


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/ops/nowhere/", 404, "There is no page at this address."),
        ("/ops/queues/none/", 404, "Not found"),
        ("/ops/people/no-number/", 404, "There is no such person."),
        ("/ops/queues/?queue=%00", 400, "NUL character"),
    ],
)
def test_what_is_refused_is_refused_in_the_consoles_words(
    path: str, status: int, words: str, administrator: Client
) -> None:
    answer = administrator.get(path)
    assert (answer.status_code, words in answer.text) == (status, True)
    assert 'href="/ops/"' in answer.text


@pytest.mark.usefixtures("host")
def test_a_page_that_fails_says_so_in_the_consoles_words(
    administrator: Client, settings: Any
) -> None:
    administrator.raise_request_exception = False
    settings.SLUICE_ENVIRONMENT = None
    answer = administrator.get("/ops/queues/")
    assert answer.status_code == 500
    assert "The console could not answer this request" in answer.text
    assert 'href="/ops/"' in answer.text
    assert get_urlconf() is None


@pytest.mark.usefixtures("host")
def test_partners_post_below_the_prefix_without_cookie_login_or_transaction() -> None:
    partner = a_partner()
    answer = partner.post({"n": 1}, path=f"/ops{partner.address()}")
    assert answer.status_code == 202
    assert answer["Location"].startswith(f"/ops/esqueue/{partner.system.name}/messages/")
    assert Client().get(answer["Location"], headers=partner.bearer).status_code == 200
    document = Client().get("/ops/openapi.json").json()
    assert document["servers"] == [{"url": "/ops"}]
    page = Client()
    page.force_login(a_person("Administrators"))
    shown = page.get(f"/ops/systems/{partner.system.pk}/http-api/").text
    assert f"http://testserver/ops/esqueue/{partner.system.name}/" in shown


@pytest.mark.usefixtures("host")
def test_supervisors_need_no_login_either() -> None:
    assert Client().get("/ops/healthz").json() == {"status": "ok"}


@pytest.mark.usefixtures("host")
def test_an_asynchronous_server_serves_it_as_well() -> None:
    client = AsyncClient()
    client.force_login(a_person("Administrators"))
    answer = async_to_sync(client.get)("/ops/queues/")
    assert answer.status_code == 200
    assert 'action="/ops/logout/"' in answer.text
    assert get_script_prefix() == "/"


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("needed", sorted(NEEDED))
def test_a_middleware_that_is_missing_is_named(needed: str, settings: Any) -> None:
    missing = NEEDED[needed]
    if needed == "session":
        settings.MIDDLEWARE = MIDDLEWARE[:1]
    else:
        settings.MIDDLEWARE = [one for one in MIDDLEWARE[:-2] if one != missing]
    with pytest.raises(ImproperlyConfigured, match=re.escape(missing)):
        Client().get("/ops/healthz")


@pytest.mark.usefixtures("host")
def test_a_program_and_the_command_line_act_below_the_prefix() -> None:
    program, queue = a_program(), a_queue_row()
    bearer = {"Authorization": f"Bearer {program.token}"}
    assert Client().get("/ops/operator/v1/openapi.json").status_code == 200
    assert Client().get("/ops/operator/v1/queues").status_code == 401
    there = httpx.WSGITransport(app=application())
    client = httpx.Client(transport=there, base_url="http://testserver/ops", headers=bearer)
    words = ["queues", "pause", queue.name, "--json"]
    done = CliRunner().invoke(built(), words, obj=Connection(client))
    assert json.loads(done.output)["paused"] is True
