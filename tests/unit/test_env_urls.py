"""URLs in the environment: what is read out of them, and what is refused without their secrets."""

import json
import os
import subprocess
import sys

import pytest

from devstack import paths
from sluice import env
from sluice.database import place_of
from tests.unit.test_env import example

pytestmark = pytest.mark.fast

URL = "postgresql://sluice:hunter2@db/sluice"
TLS = "sslmode=verify-full&sslrootcert=/etc/ssl/db%20ca.pem&target_session_attrs=read-write"
WAY = {
    "sslmode": "verify-full",
    "sslrootcert": "/etc/ssl/db ca.pem",
    "target_session_attrs": "read-write",
}
# The same of each of the three that name databases.
DATABASES = {
    "SLUICE_DATABASE_URL": URL,
    "SLUICE_DATABASE_REPLICA_URL": URL,
    "SLUICE_OTHER_DATABASES": f"ledger={URL}",
}
LOOK = """
import json
from config import settings
print(json.dumps({alias: one["OPTIONS"] for alias, one in settings.DATABASES.items()}))
"""


def mistakes(name: str, value: str) -> list[str]:
    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), name: value})
    return told.value.mistakes


def test_the_way_to_each_database_is_that_of_its_url() -> None:
    said = {name: f"{value}?{TLS}" for name, value in DATABASES.items()}
    read = env.read({**example(), **said})
    for database in (read.database, read.replica, read.other_databases["ledger"]):
        assert WAY.items() <= place_of(database).items()
        assert place_of(database)["dbname"] == "sluice"

    ended = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=paths.ROOT,
        env={**os.environ, **example(), **said},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    options = json.loads(ended.stdout)
    assert set(options) == {"default", "replica", "ledger"}
    for one in options.values():
        assert WAY.items() <= one.items()
        assert one["server_side_binding"] is True


@pytest.mark.parametrize("name", sorted(DATABASES))
@pytest.mark.parametrize(
    ("query", "place", "told"),
    [
        ("sslmod=hunter2", 1, "none that libpq knows"),
        ("sslmode=require&hunter2", 2, "none that libpq knows"),
        ("sslmode=require&", 2, "none that libpq knows"),
        ("ssl=hunter2", 1, "none that libpq knows"),
        ("host=hunter2", 1, "is host;"),
        ("sslmode=require&options=-c%20hunter2", 2, "is options;"),
        ("application_name=hunter2", 1, "is application_name;"),
    ],
)
def test_an_option_that_is_not_about_the_way_is_told_without_its_value(
    name: str, query: str, place: int, told: str
) -> None:
    [mistake] = mistakes(name, f"{DATABASES[name]}?{query}")
    assert mistake.startswith(f"{name}: option {place} after the question mark ")
    assert told in mistake
    assert "hunter2" not in mistake


def test_a_piece_of_a_password_is_not_told_as_an_option() -> None:
    assert "hunter2" not in str(mistakes("SLUICE_DATABASE_URL", "postgresql://u:1?hunter2=@db/s"))
    assert "hunter2" not in str(mistakes("SLUICE_DATABASE_URL", "postgresql://u:1/?hunter2=@db/s"))
    assert "%23" in str(mistakes("SLUICE_DATABASE_URL", f"{URL}?sslrootcert=/etc/ssl#hunter2"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "smtp://mail.example.org",
        "smtp+tls://us%40er:hunter2@mail.example.org:2587",
        "smtps://user:hunter2@[::1]:465/",
    ],
)
def test_a_mail_server_is_read_as_it_is_named(value: str) -> None:
    assert env.read({**example(), "SLUICE_EMAIL_URL": value}).email_url == value


@pytest.mark.parametrize(
    "value",
    [
        "mail.example.org",
        "mail.example.org:25",
        "hunter2@mail.example.org",
        "smtp:mail.example.org",
        "smtp://",
        "smtp://user:hunter2@",
        "smtp+ssl://user:hunter2@mail.example.org",
        "smtp+starttls://user:hunter2@mail.example.org",
        "https://user:hunter2@mail.example.org",
        "smtp://mail.example.org:port25",
        "smtp://mail.example.org:0",
        "smtp://mail.example.org:70000",
        "smtp://user:2/hunter2@mail.example.org",
        "smtp://user:2?hunter2@mail.example.org",
        "smtp://user:2#hunter2@mail.example.org",
        "smtp://[hunter2",
    ],
)
def test_what_is_no_mail_server_is_told_without_its_password(value: str) -> None:
    [mistake] = mistakes("SLUICE_EMAIL_URL", value)
    assert mistake.startswith("SLUICE_EMAIL_URL ")
    assert "smtp+tls://" in mistake
    assert "hunter2" not in mistake
