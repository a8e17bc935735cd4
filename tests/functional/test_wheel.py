"""The wheel: built from this checkout, installed beside another project, and at work there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import Parser
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from devstack import ports
from devstack.servers import Servers
from tests.support import restored, tutorial
from tests.support.kafka_world import Kafka

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "tests" / "support" / "bare_project"
# Of this checkout's own installation only: its settings are not in the wheel.
OF_OUR_SETTINGS = {"whitenoise", "python-json-logger"}
LOCKED = ("requirements.txt", "requirements-amqp.txt")
# Drawn from other requirements by their extras.
OF_EXTRAS = {"confluent-kafka": {"fastavro", "protobuf"}}
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT)
    [built] = folder.glob("sluice-*.whl")
    return built


def run(words: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.fast
def test_everything_that_runs_is_in_it_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "console",
        "crontasks",
        "integration",
        "sluice",
        "sluice_cli",
        "spark_jobs",
    }
    assert names >= {
        "console/templates/console/base.html",
        "console/static/console/console.css",
        "console/static/console/vendor/tabler.min.css",
        "console/static/console/vendor/htmx.min.js",
        "integration/handlers/starter/handlers.py.txt",
        "sluice_cli/openapi.json",
    }
    tracked = run(["git", "ls-files", *tops], ROOT).split()
    assert {name for name in tracked if ".dist-info" not in name} <= names
    assert not [name for name in names if "__pycache__" in name or "node_modules" in name]


@pytest.mark.fast
def test_what_it_asks_for_are_the_pins_of_this_checkout_as_ranges(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
    said = Parser().parsestr(archive.read(metadata).decode())
    asked = {
        canonicalize_name(one.name): one
        for one in map(Requirement, said.get_all("Requires-Dist", []))
    }
    assert set(said.get_all("Provides-Extra", [])) == {"spark", "amqp", "registry", "otel"}
    lines = "".join((ROOT / name).read_text() for name in LOCKED).splitlines()
    pinned = {
        canonicalize_name(one.name): one
        for one in map(Requirement, (line.split(" \\")[0] for line in lines if line[:1].isalnum()))
    }
    for name, one in asked.items():
        [pin] = pinned[name].specifier
        assert one.specifier.contains(pin.version), f"{one}: tested with {pinned[name]}"
    named = (ROOT / "requirements.in").read_text().splitlines()
    ours = {canonicalize_name(Requirement(line).name) for line in named if line[:1].isalpha()}
    further = {"python-qpid-proton", *OF_EXTRAS["confluent-kafka"]}
    assert set(asked) == ours - OF_OUR_SETTINGS | further


@pytest.mark.fast
def test_its_version_is_the_tags_or_without_git_the_one_in_pyproject(
    wheel: Path, tmp_path: Path
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = project["tool"]["hatch"]["version"]["fallback-version"]
    for name in ("pyproject.toml", "README.md", "deploy"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    assert said_version(tmp_path) == known
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example"]
    run([*git, "init", "-q"], tmp_path)
    run([*git, "add", "."], tmp_path)
    run([*git, "commit", "-qm", "one"], tmp_path)
    run([*git, "tag", "v7.8.9"], tmp_path)
    assert said_version(tmp_path) == "7.8.9"


def said_version(folder: Path) -> str:
    return run([sys.executable, "-m", "hatchling", "version"], folder).strip()


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it, which sees the packages of this one and no checkout."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT)
    made = folder / "bin" / "python"
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "third_party.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(made), "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], folder)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "__init__.py").unlink()
    return folder


@pytest.fixture
def environment(servers: Servers) -> Iterator[dict[str, str]]:
    """What the project's processes are told: their servers, and no setting of this checkout."""
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
        broker = servers.celery_broker_url.rsplit("/", 1)[0]
        kept = {one: value for one, value in os.environ.items() if not OURS.match(one)}
        yield {
            **kept,
            "SHOP_DATABASE_URL": urlsplit(servers.database_url)._replace(path="/shop").geturl(),
            "SHOP_BROKER_URL": f"{broker}/3",
            "SLUICE_CELERY_BROKER_URL": f"{broker}/4",
            "SLUICE_ENCRYPTION_KEYS": "c2x1aWNlLXRlc3RzLW9ubHktMzItYnl0ZXMtbG9uZyE=",
            "DJANGO_SETTINGS_MODULE": "shop.settings",
        }
        connection.execute("DROP DATABASE shop WITH (FORCE)")


OURS = re.compile(r"SLUICE_|DJANGO_|PYTHONPATH|CELERY_|PYTEST_")


@pytest.mark.servers
def test_it_works_in_a_project_with_users_a_router_a_prefix_and_a_celery_app_of_its_own(
    python: Path, project: Path, environment: dict[str, str], servers: Servers
) -> None:
    manage = [str(python), "manage.py"]
    place = [str(python), "-c", "import console; print(console.__file__)"]
    where = run(place, project, environment)
    assert where.startswith(str(python.parents[1]))
    kafka = Kafka(servers.kafka_bootstrap)
    topic = kafka.topic()
    facts = json.loads(run([*manage, "begin", kafka.bootstrap, topic], project, environment))
    assert facts.pop("session").startswith("-c client_connection_check_interval=500ms")
    assert facts == {
        "current_app": "shop",
        "enabled_for_another_beat": 0,
        "keys": ["BigAutoField", "BigAutoField", "UUIDField"],
        "language": "de",
    }
    kafka.send(topic, [{"number": "P-1"}])
    with at_work(manage, project, environment) as address:
        parts = arrived(environment["SHOP_DATABASE_URL"], "SELECT number FROM plant_part")
        assert parts == ["P-1"]
        run([str(python), "-m", "crontasks.alive", "worker"], project, environment)
        open_the_console(address)
        assert "nothing is broken" in run([*manage, "check_flow", "parts"], project, environment)
        assert beat_acts(environment["SHOP_DATABASE_URL"])


@pytest.mark.servers
@pytest.mark.django_db(transaction=True)
def test_the_tutorials_project_works_as_its_page_says(
    python: Path, tmp_path: Path, environment: dict[str, str], servers: Servers
) -> None:
    url = environment["SHOP_DATABASE_URL"]
    told = {
        **environment,
        "SLUICE_DATABASE_URL": url,
        "SLUICE_KAFKA_BOOTSTRAP": servers.kafka_bootstrap,
    }
    # From the first migration on, the test above has made them.
    restored.give_tables_to(url)
    tutorial.lay_out(tmp_path, told, str(python))
    with tutorial.a_copy_for_its_tests(url):
        watch_it_work(tmp_path, told, str(python), url)
        tests = [str(python), "manage.py", "test", "orders", "--noinput", "--keepdb"]
        assert "Found 2 test(s)" in run(tests, tmp_path, told)


def watch_it_work(folder: Path, told: dict[str, str], python: str, url: str) -> None:
    good = [("O-1001", "Ada", "25.50"), ("O-1002", "Grace", "8.00")]
    tutorial.send(folder, told, python, *good, ("O-1003", "Linus", "12,50"))
    tutorial.set_up(folder, told, python)
    with at_work([python, "manage.py"], folder, told):
        assert arrived(url, "SELECT code FROM integration_messageerror") == ["TOTAL_NOT_A_NUMBER"]
        assert arrived(url, "SELECT number FROM orders_order ORDER BY 1") == ["O-1001", "O-1002"]


@contextmanager
def at_work(manage: list[str], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Worker, relay, beat and the project's web server; yields the address of the last."""
    bind = f"127.0.0.1:{ports.choose()}"
    with (folder / "services.log").open("wb") as log:
        process = subprocess.Popen(
            [*manage, "run_services", "--slots", "1", "--bind", bind],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield f"http://{bind}"
    except BaseException:
        sys.stderr.write((folder / "services.log").read_text()[-6_000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def arrived(url: str, rows_of: str, seconds: float = 150) -> list[str]:
    """What a query finds, once it finds something."""
    deadline = time.monotonic() + seconds
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            rows = connection.execute(rows_of).fetchall()
            if rows:
                return [value for (value,) in rows]
            time.sleep(0.2)
    return []


def beat_acts(url: str, seconds: float = 90) -> bool:
    """Whether the relay's schedule comes to a new moment."""
    moment = "SELECT last_scheduled_at FROM crontasks_croninstance WHERE task = 'relay'"
    deadline = time.monotonic() + seconds
    with psycopg.connect(url, autocommit=True) as connection:
        before = connection.execute(moment).fetchone()
        while time.monotonic() < deadline:
            if connection.execute(moment).fetchone() != before:
                return True
            time.sleep(0.2)
    return False


def open_the_console(address: str) -> None:
    transport = httpx.HTTPTransport(retries=9)
    with httpx.Client(base_url=address, transport=transport, timeout=30) as client:
        assert "The shop" in client.get("/").text
        asked = client.get("/ops/queues/")
        assert asked.headers["Location"] == "/ops/login/?next=/ops/queues/"
        page = client.get("/ops/login/").text
        assert 'for="id_username">Email</label>' in page
        token = TOKEN.search(page)
        assert token is not None
        typed = {"username": "ada@shop.example", "password": "engine"}
        entered = client.post(
            "/ops/login/?next=/ops/queues/",
            data={**typed, "csrfmiddlewaretoken": token[1], "next": "/ops/queues/"},
        )
        assert (entered.status_code, entered.headers["Location"]) == (302, "/ops/queues/")
        page = client.get("/ops/queues/").text
        assert "parts" in page
        assert "/files/console/console.css" in page
        people = client.get("/ops/people/").text
        assert "bob@shop.example" in people
        [bob] = re.findall(r'href="(/ops/people/[0-9a-f-]+/)">bob@', people)
        give_a_role(client, bob)
        assert client.get("/ops/people/new/").status_code == 403
        assert client.get("/ops/changes/").status_code == 200
        assert "no such page" not in client.get("/ops/nowhere/").text
        assert "no such page" in client.get("/nowhere/").text
        assert client.get("/ops/healthz").json() == {"status": "ok"}


def give_a_role(client: httpx.Client, path: str) -> None:
    """An account of the project's own gets a role on the console's page."""
    page = client.get(path).text
    token, seen = TOKEN.search(page), re.search(r'name="seen"\s+value="([^"]+)"', page)
    operators = re.search(r'value="(\d+)"[^>]*>\s*(?:<[^>]*>)*\s*Operators:', page)
    assert token is not None
    assert seen is not None
    assert operators is not None
    data = {
        "csrfmiddlewaretoken": token[1],
        "seen": seen[1],
        "email": "bob@shop.example",
        "roles": operators[1],
        "why": "He operates.",
    }
    assert client.post(path, data=data).headers["Location"] == "/ops/people/"
    assert "Operators" in client.get(path).text


@pytest.mark.servers
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"console/__init__.py": ""}, "hides Sluice's own of this name; rename it"),
        (
            {
                "shop/console/__init__.py": "",
                "shop/settings.py": ('"orders",', '"orders", "shop.console",'),
            },
            "the app shop.console has the label console, which is Sluice's",
        ),
        (
            {"shop/settings.py": ('os.environ["SHOP_BROKER_URL"]', '"redis://127.0.0.1:6379"')},
            "also the broker of the project's own Celery app",
        ),
        (
            {
                "shop/routers.py": ('if db == "archive" or app_label == "orders"', "if True"),
                "people/models.py": (", PermissionsMixin)", ")"),
            },
            "(sluice.E003) A database router leads tables|(sluice.E001) Sluice's rights are",
        ),
        (
            {"shop/settings.py": ("sluice_settings(globals())", "")},
            "call sluice_settings(globals())",
        ),
    ],
    ids=["package", "label", "broker", "router and users", "no call"],
)
def test_what_would_be_in_its_way_is_said_at_the_start(
    python: Path,
    project: Path,
    changes: dict[str, str | tuple[str, str]],
    sentence: str,
) -> None:
    for name, change in changes.items():
        file = project / name
        file.parent.mkdir(exist_ok=True)
        if isinstance(change, str):
            file.write_text(change)
        else:
            text = file.read_text()
            assert change[0] in text
            file.write_text(text.replace(*change))
    kept = {one: value for one, value in os.environ.items() if not OURS.match(one)}
    done = subprocess.run(
        [str(python), "manage.py", "check"],
        cwd=project,
        env={
            **kept,
            "SHOP_DATABASE_URL": "postgresql://a@127.0.0.1:1/none",
            "SHOP_BROKER_URL": "redis://127.0.0.1:6379/3",
            "SLUICE_CELERY_BROKER_URL": "redis://127.0.0.1:6379/0",
            "SLUICE_ENCRYPTION_KEYS": "c2x1aWNlLXRlc3RzLW9ubHktMzItYnl0ZXMtbG9uZyE=",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert all(one in said for one in sentence.split("|")), said
