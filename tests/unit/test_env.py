"""The environment: .env.example names exactly what is read, and every mistake is told at once."""

import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from cryptography.fernet import Fernet

from devstack import paths
from sluice import env

pytestmark = pytest.mark.fast

EXAMPLE = (paths.ROOT / ".env.example").read_text()
ASSIGNMENT = re.compile(r"^([A-Z0-9_]+)=(.*)$", re.MULTILINE)
DEFAULT = re.compile(r"^# Default: (.+)\n([A-Z0-9_]+)=", re.MULTILINE)
REQUIRED = {
    "SLUICE_DATABASE_URL",
    "SLUICE_CELERY_BROKER_URL",
    "SLUICE_SECRET_KEY",
    "SLUICE_ENCRYPTION_KEYS",
    "SLUICE_ENVIRONMENT",
}


class Recording(Mapping[str, str]):
    """Variables that remember which of them were asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values_by_name = values
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


def example() -> dict[str, str]:
    return dict(ASSIGNMENT.findall(EXAMPLE))


def test_the_example_names_exactly_the_variables_that_are_read():
    variables = Recording(example())

    env.read(variables)

    assert sorted(name for name, _ in ASSIGNMENT.findall(EXAMPLE)) == sorted(variables.asked)


def test_the_example_works_as_it_stands():
    read = env.read(example())

    assert read.database["NAME"] == "sluice"
    assert read.database["PORT"] == "5432"
    assert len(read.encryption_keys) == 1
    assert read.installed_integrations == ("sample",)


@pytest.mark.parametrize("environment", ["production", "staging"])
@pytest.mark.parametrize(
    "name", ["SLUICE_SECRET_KEY", "SLUICE_SECRET_KEY_FALLBACKS", "SLUICE_ENCRYPTION_KEYS"]
)
def test_the_public_secrets_of_the_example_are_refused_in_earnest(name, environment):
    own = {
        "SLUICE_SECRET_KEY": secrets.token_urlsafe(48),
        "SLUICE_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
        "SLUICE_ENVIRONMENT": environment,
    }
    env.read({**example(), **own})
    # A key that only decrypts is as public as one that encrypts.
    shown = example()[name] or example()["SLUICE_SECRET_KEY"]
    public = ",".join(filter(None, [own[name] if name.endswith("_KEYS") else "", shown]))
    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), **own, name: public})
    assert [mistake.split()[0] for mistake in told.value.mistakes] == [name]


def test_a_piece_of_a_former_key_is_no_key():
    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), "SLUICE_SECRET_KEY_FALLBACKS": f"{'k' * 40},rest"})
    assert [mistake.split()[0] for mistake in told.value.mistakes] == [
        "SLUICE_SECRET_KEY_FALLBACKS"
    ]


def test_the_example_reads_the_same_with_and_without_a_shell():
    assert [v for v in example().values() if v and shlex.quote(v) != v] == []


@pytest.mark.parametrize("name", sorted(set(example()) - REQUIRED))
def test_the_example_tells_the_true_default(name):
    defaults = {name: default for default, name in DEFAULT.findall(EXAMPLE)}
    told = "" if defaults[name] == "none" else defaults[name]
    without = {n: v for n, v in example().items() if n != name}

    assert vars(env.read(without)) == vars(env.read({**without, name: told}))


@pytest.mark.parametrize(
    ("said", "issuer"),
    [
        ("https://id.example.org/realms/plant/", "https://id.example.org/realms/plant"),
        ("https://id.example.org/.well-known/openid-configuration", "https://id.example.org"),
        ("http://localhost:9400", "http://localhost:9400"),
        ("http://id.example.org", None),
        ("id.example.org", None),
        ("https://id.example.org/?realm=plant", None),
        ("https://[", None),
    ],
)
def test_an_identity_provider_is_named_by_its_address(said, issuer):
    named = {**example(), "SLUICE_OIDC_ISSUER": said, "SLUICE_OIDC_CLIENT_ID": "sluice"}
    if issuer is not None:
        assert env.read(named).oidc_issuer == issuer
        return
    with pytest.raises(env.SettingsError) as told:
        env.read(named)
    assert [mistake.split()[0] for mistake in told.value.mistakes] == ["SLUICE_OIDC_ISSUER"]


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("SLUICE_OIDC_CLIENT_ID", {"SLUICE_OIDC_ISSUER": "https://id.example.org"}),
        ("SLUICE_LOCAL_LOGIN", {"SLUICE_LOCAL_LOGIN": "0"}),
        ("SLUICE_SECOND_FACTORS", {"SLUICE_SECOND_FACTORS": "app,sms"}),
        (
            "SLUICE_SECOND_FACTOR_ROLES",
            {"SLUICE_SECOND_FACTORS": "none", "SLUICE_SECOND_FACTOR_ROLES": "Administrators"},
        ),
    ],
)
def test_a_login_that_could_let_nobody_in_is_refused(name, variables):
    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), **variables})
    assert [mistake.split()[0] for mistake in told.value.mistakes] == [name]


def test_every_missing_variable_is_told_at_once():
    with pytest.raises(env.SettingsError) as told:
        env.read({})

    assert {mistake.split()[0] for mistake in told.value.mistakes} == REQUIRED
    assert all(name in str(told.value) for name in REQUIRED)
    assert ".env.example" in str(told.value)
    assert "page Settings" in str(told.value), "a wheel brings no .env.example"


def test_every_wrong_value_is_told_at_once_and_no_secret_with_it():
    wrong = {
        "SLUICE_DATABASE_URL": "mysql://root:hunter2@127.0.0.1/sluice",
        "SLUICE_ENCRYPTION_KEYS": f"{example()['SLUICE_ENCRYPTION_KEYS']},c2hvcnQ=,hunter2",
        "SLUICE_DEBUG": "perhaps",
        "SLUICE_LEASE_SECONDS": "-1",
        "SLUICE_SECRET_KEY": " ",
    }

    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), **wrong})

    mistakes = "\n".join(told.value.mistakes)
    assert all(name in mistakes for name in wrong)
    assert "key 2" in mistakes
    assert "key 3" in mistakes
    assert len(told.value.mistakes) == len(wrong) + 1
    assert "hunter2" not in mistakes


@pytest.mark.parametrize(
    ("value", "database"),
    [
        (
            "postgresql://us%40er:p%2Fw@db:5433/sluice%20x",
            {"USER": "us@er", "PASSWORD": "p/w", "HOST": "db", "PORT": "5433", "NAME": "sluice x"},
        ),
        (
            "postgres:///sluice",
            {"USER": "", "PASSWORD": "", "HOST": "", "PORT": "5432", "NAME": "sluice"},
        ),
    ],
)
def test_a_database_is_read_from_its_url(value, database):
    read = env.read({**example(), "SLUICE_DATABASE_URL": value}).database

    assert {key: read[key] for key in database} == database


@pytest.mark.parametrize("value", ["sluice", "postgresql://db:port/sluice", "postgresql://db/"])
def test_a_url_that_names_no_postgresql_database_is_refused(value):
    with pytest.raises(env.SettingsError, match="SLUICE_DATABASE_URL"):
        env.read({**example(), "SLUICE_DATABASE_URL": value})


@pytest.mark.parametrize("value", ["-1", "an hour", "1.5", "9" * 10])
def test_a_duration_for_browsers_is_whole_seconds(value):
    with pytest.raises(env.SettingsError, match="SLUICE_HTTPS_HSTS_SECONDS"):
        env.read({**example(), "SLUICE_HTTPS_HSTS_SECONDS": value})


def test_with_https_the_installation_passes_the_check_for_deployment():
    variables = {**example(), "SLUICE_HTTPS": "1", "SLUICE_SECRET_KEY": secrets.token_urlsafe(48)}
    words = ["check", "--deploy", "--fail-level", "WARNING"]
    ended = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=paths.ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", {}),
        ("spark.a=1", {"spark.a": "1"}),
        ("spark.a=1, spark.b=x,y,spark.c=-Xss4m -Db=c", None),
        ("spark.a=1\nspark.b=2\n", {"spark.a": "1", "spark.b": "2"}),
        ('{"spark.a": "1,2"}', {"spark.a": "1,2"}),
    ],
)
def test_settings_of_spark_are_pairs(value, read):
    read = read or ({"spark.a": "1", "spark.b": "x,y", "spark.c": "-Xss4m -Db=c"} if value else {})
    assert env.read({**example(), "SLUICE_SPARK_CONF": value}).spark_conf == read


@pytest.mark.parametrize("value", ["spark.a", "a=1", '{"spark.a": 1}', '{"a": "1"}', "{", "[]"])
def test_what_is_no_setting_of_spark_is_told(value):
    with pytest.raises(env.SettingsError, match="SLUICE_SPARK_CONF"):
        env.read({**example(), "SLUICE_SPARK_CONF": value})


def test_figures_are_for_nobody_until_it_is_said_and_for_the_laptop_itself():
    own = {
        "SLUICE_SECRET_KEY": secrets.token_urlsafe(48),
        "SLUICE_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
        "SLUICE_ENVIRONMENT": "production",
    }
    there = {**example(), **own}
    assert env.read(there).metrics_addresses == ()
    assert env.read(example()).metrics_addresses == env.LOOPBACK
    listed = {"SLUICE_METRICS_ADDRESSES": "10.0.7.12, 10.0.8.0/24"}
    assert env.read({**there, **listed}).metrics_addresses == ("10.0.7.12", "10.0.8.0/24")
    with pytest.raises(env.SettingsError) as told:
        env.read({**there, "SLUICE_METRICS_ADDRESSES": "prometheus"})
    assert [mistake.split()[0] for mistake in told.value.mistakes] == ["SLUICE_METRICS_ADDRESSES"]


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({}, (False, "parentbased_always_on", 1.0)),
        ({"SLUICE_OTEL": "1"}, (True, "parentbased_always_on", 1.0)),
        ({"SLUICE_OTEL": "1", "OTEL_SDK_DISABLED": "true"}, (False, "parentbased_always_on", 1.0)),
        (
            {
                "SLUICE_OTEL": "1",
                "OTEL_TRACES_SAMPLER": "TraceIdRatio",
                "OTEL_TRACES_SAMPLER_ARG": "0.01",
            },
            (True, "traceidratio", 0.01),
        ),
    ],
)
def test_the_standard_variables_of_tracing_count_where_it_is_on(said, read):
    told = env.read({**example(), **said})

    assert (told.otel, told.otel_sampler, told.otel_ratio) == read


@pytest.mark.parametrize(
    "wrong",
    [
        {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
        {"OTEL_TRACES_SAMPLER_ARG": "1.5"},
        {"OTEL_TRACES_SAMPLER_ARG": "all"},
    ],
)
def test_what_tracing_cannot_do_is_told_only_where_it_is_on(wrong):
    env.read({**example(), **wrong})

    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), "SLUICE_OTEL": "1", **wrong})

    assert [mistake.split()[0] for mistake in told.value.mistakes] == list(wrong)


def test_the_console_has_an_address_that_links_begin_with():
    assert not env.read(example()).console_url
    given = {"SLUICE_CONSOLE_URL": "https://shop.test/ops/"}
    assert env.read({**example(), **given}).console_url == "https://shop.test/ops"
    for wrong in (
        "shop.test",
        "javascript:alert(1)",
        "https://",
        "https://a:b@shop.test",
        "https://a/?b",
    ):
        with pytest.raises(env.SettingsError) as told:
            env.read({**example(), "SLUICE_CONSOLE_URL": wrong})
        assert "SLUICE_CONSOLE_URL" in told.value.mistakes[0]


def test_a_link_to_traces_has_a_place_for_the_id():
    good = "https://jaeger.test/trace/{trace_id}"
    assert env.read({**example(), "SLUICE_TRACE_URL": good}).trace_url == good
    for wrong in ("https://jaeger.test/", "javascript:{trace_id}"):
        with pytest.raises(env.SettingsError):
            env.read({**example(), "SLUICE_TRACE_URL": wrong})


S3 = {"SLUICE_S3_ACCESS_KEY": "key", "SLUICE_S3_SECRET_KEY": "hunter2"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"SLUICE_S3_ENDPOINT": "https://key:hunter2@s3.example.org"},
        {"SLUICE_S3_ENDPOINT": "s3.example.org/hunter2"},
        {"SLUICE_S3_ACCESS_KEY": ""},
        {"SLUICE_S3_PLACES": "s3://plant/incoming"},
        {"SLUICE_S3_PLACES": "s3://plant/*/"},
    ],
)
def test_an_object_storage_is_named_whole_and_no_secret_is_told(wrong):
    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), **S3, **wrong})
    assert len(told.value.mistakes) == 1
    assert "SLUICE_S3_" in told.value.mistakes[0]
    assert "hunter2" not in told.value.mistakes[0]


def test_an_object_storage_is_read_as_it_is_named():
    places = "s3://plant/, s3a://plant/incoming/assets/"
    read = env.read({**example(), **S3, "SLUICE_S3_PLACES": places})
    assert read.s3 == {"endpoint": "", "region": "", "access_key": "key", "secret_key": "hunter2"}
    assert read.s3_places == ("s3://plant/", "s3a://plant/incoming/assets/")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", {}),
        (
            "http://us%40er:p%2Fw@proxy.example.org",
            {"url": "http://proxy.example.org:3128", "username": "us@er", "password": "p/w"},
        ),
        ("http://[::1]:8080/", {"url": "http://[::1]:8080", "username": "", "password": ""}),
    ],
)
def test_a_forward_proxy_is_read_in_its_parts(value, read):
    assert env.read({**example(), "SLUICE_HTTP_PROXY": value}).http_proxy == read


@pytest.mark.parametrize(
    "value", ["proxy:3128", "https://u:hunter2@proxy", "http://proxy:hunter2", "http://p/hunter2"]
)
def test_what_is_no_forward_proxy_is_told_without_its_password(value):
    with pytest.raises(env.SettingsError) as told:
        env.read({**example(), "SLUICE_HTTP_PROXY": value})
    assert len(told.value.mistakes) == 1
    assert "hunter2" not in told.value.mistakes[0]


def test_a_standby_is_read_from_its_url_and_has_a_name_of_its_own():
    url = "postgresql://sluice:hunter2@standby/sluice"
    read = env.read({**example(), "SLUICE_DATABASE_REPLICA_URL": url})
    assert read.replica["HOST"] == "standby"
    assert env.read(example()).replica == {}
    taken = {"SLUICE_DATABASE_REPLICA_URL": url, "SLUICE_OTHER_DATABASES": f"replica={url}"}
    with pytest.raises(env.SettingsError, match="SLUICE_OTHER_DATABASES has a database 'replica'"):
        env.read({**example(), **taken})
