"""The compose file and the units: they parse and agree with each other and with `make run`.

As far as can be said without a daemon: they name what exists, are given every setting, and stop
and come back as the documents say.
"""

import re
import secrets
import tomllib
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet
from django.conf import settings
from django.core.management import get_commands

from crontasks import alive
from crontasks.health.live_processes import SPARK
from devstack.parts import PARTS
from integration.models import Queue
from sluice import env
from tests.support.deployed import (
    COMPOSE,
    DEFAULT,
    ENV_FILES,
    OURS,
    PINNED,
    ROOT,
    SERVERS,
    SERVICES,
    UNITS,
    command_of,
    kept_of,
    of,
    started_by,
    unit,
)
from tests.support.docker import IMAGES
from tests.unit.test_env import REQUIRED, Recording, example

pytestmark = pytest.mark.fast

# How a process is called by make run, by the compose file and by its unit.
PROCESSES = {
    "web": ("web", "sluice-web.service"),
    "worker": ("worker", "sluice-worker@.service"),
    "relay": ("relay", "sluice-relay.service"),
    "beat": ("beat", "sluice-beat.service"),
    "spark": ("spark", "sluice-spark.service"),
}
# What an installation starts only where it wants bulk jobs.
ON_REQUEST = {"spark": "sluice-spark.service"}
# Compose refuses a file with any other word; so does this test, without Compose.
WORDS = {
    "build",
    "cap_add",
    "cap_drop",
    "command",
    "cpus",
    "depends_on",
    "env_file",
    "environment",
    "healthcheck",
    "image",
    "init",
    "logging",
    "mem_limit",
    "pids_limit",
    "ports",
    "profiles",
    "read_only",
    "restart",
    "security_opt",
    "shm_size",
    "stop_grace_period",
    "tmpfs",
    "volumes",
}
CHECK_WORDS = {
    "disable",
    "interval",
    "retries",
    "start_interval",
    "start_period",
    "test",
    "timeout",
}
# Each installation's own: how many slots, under which name, at which address.
FREE = {"-c": "COUNT", "-n": "NAME", "--bind": "ADDRESS"}


def essence(words: list[str]) -> list[str]:
    """The command without what each installation chooses for itself."""
    kept = [FREE.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    text = " ".join(kept).replace(" --worker-tmp-dir /dev/shm", "")
    return text.split()


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_there_are_the_servers_the_processes_and_one_migration() -> None:
    assert {"postgres", "valkey", "kafka"} == SERVERS
    assert {"web", "worker", "relay", "beat", "spark", "migrate"} == OURS
    assert {name for name in SERVICES if "profiles" in SERVICES[name]} == set(ON_REQUEST)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_word_of_a_service_is_misspelt(name: str) -> None:
    assert not set(SERVICES[name]) - WORDS
    assert not set(SERVICES[name].get("healthcheck", {})) - CHECK_WORDS
    assert set(COMPOSE) == {"name", "x-sluice", "services", "volumes"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_is_pinned_to_a_version(name: str) -> None:
    image = DEFAULT.sub(r"\1", SERVICES[name]["image"])
    assert PINNED.fullmatch(image), image
    assert "latest" not in image


def test_the_servers_are_those_the_tests_run_on() -> None:
    for name in SERVERS:
        repository, version = SERVICES[name]["image"].split(":")
        tested, major = IMAGES[name].split(":")
        assert repository == tested
        assert version.split("-")[0].startswith(major), f"{name}: tested with {major}"


def test_our_image_carries_the_version_of_the_project() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    project = settings["hatch"]["version"]["fallback-version"]
    tags = {name: DEFAULT.sub(r"\1", SERVICES[name]["image"]) for name in OURS}
    assert tags.pop("spark") == f"sluice-spark:{project}"
    assert set(tags.values()) == {f"sluice:{project}"}


@pytest.mark.parametrize("process", sorted(PROCESSES))
def test_make_run_compose_and_systemd_start_the_same(process: str) -> None:
    service, file = PROCESSES[process]
    part = next(part for part in PARTS if part.name == process)
    wanted = essence(["python", *part.arguments])

    assert essence(command_of(service)) == wanted
    assert essence(started_by(ROOT / "deploy" / "systemd" / file)) == wanted


def test_every_process_of_make_run_is_deployed() -> None:
    assert {part.name for part in PARTS} - {"sample", "partner", "payments"} == set(PROCESSES)


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_names_what_exists(name: str) -> None:
    words = command_of(name)
    assert words[0] == "python"
    if words[1] == "manage.py":
        assert words[2] in get_commands()
        return
    queues = {settings.SLUICE_CELERY_TASK_DEFAULT_QUEUE}
    queues |= {route["queue"] for route in settings.SLUICE_CELERY_TASK_ROUTES.values()}
    if "-Q" in words:
        assert words[words.index("-Q") + 1] in queues
    if "celery" in words:
        assert (ROOT / words[words.index("-A") + 1] / "celery.py").exists()
    else:
        assert (ROOT / "config" / "wsgi.py").exists()
        assert "config.wsgi" in words


def test_all_celery_queues_have_a_worker() -> None:
    routed = {route["queue"] for route in settings.SLUICE_CELERY_TASK_ROUTES.values()}
    served = {words[words.index("-Q") + 1] for words in map(command_of, OURS) if "-Q" in words}
    served |= {SPARK for words in map(command_of, OURS) if "run_spark_driver" in words}
    assert served == routed | {settings.SLUICE_CELERY_TASK_DEFAULT_QUEUE}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate", "web"}))
def test_every_service_has_a_health_check_that_names_what_exists(name: str) -> None:
    test = SERVICES[name]["healthcheck"]["test"]
    assert test[0] in {"CMD", "CMD-SHELL"}
    if name in OURS:
        assert test[1:] == ["python", "-m", "crontasks.alive", name]
        assert name in alive.KINDS


def test_the_database_is_healthy_only_when_it_is_reached_as_by_others() -> None:
    # At its first start the image runs a server that listens on the socket alone.
    test = SERVICES["postgres"]["healthcheck"]["test"]
    assert "--host 127.0.0.1" in " ".join(test)


def test_the_image_checks_the_console_and_a_migration_checks_nothing() -> None:
    assert "healthcheck" not in SERVICES["web"]
    assert "/healthz" in of("HEALTHCHECK")[0]
    assert SERVICES["migrate"]["healthcheck"] == {"disable": True}


def test_data_lie_in_named_volumes() -> None:
    mounted = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if not volume.startswith("./")
    }
    ours = {"bulk-data", "spark-data", "web-bodies"}
    assert mounted == set(COMPOSE["volumes"]) == {"postgres-data", "kafka-data"} | ours
    # The web and the driver share the folder of bulk jobs, and each may write into it.
    bulk = SERVICES["web"]["environment"]["SLUICE_BULK_ROOT"]
    assert all(f"bulk-data:{bulk}" in SERVICES[name]["volumes"] for name in OURS)
    made = next(rest for rest in of("RUN") if "useradd" in rest)
    assert "install --directory --owner sluice" in made
    assert bulk in made
    # The image of PostgreSQL 18 has its data below this folder, not in `data` any more.
    assert "postgres-data:/var/lib/postgresql" in SERVICES["postgres"]["volumes"]
    (kafka,) = SERVICES["kafka"]["volumes"]
    assert kafka.split(":")[1] == SERVICES["kafka"]["environment"]["KAFKA_LOG_DIRS"]


def test_the_role_in_the_database_is_a_plain_one() -> None:
    postgres = SERVICES["postgres"]
    given = postgres["environment"]
    # Either would make the image create a superuser under the name that Sluice logs in with.
    assert not {"POSTGRES_USER", "POSTGRES_PASSWORD"} & set(given)
    (script,) = [volume for volume in postgres["volumes"] if volume.startswith("./")]
    made = (ROOT / script.split(":")[0]).read_text()
    assert "CREATE ROLE sluice LOGIN NOSUPERUSER" in made
    assert f"getenv password {next(name for name in given if name.startswith('SLUICE'))}" in made
    for name in OURS:
        assert "//sluice:$" in SERVICES[name]["environment"]["SLUICE_DATABASE_URL"]


def test_the_celery_broker_asks_for_a_password() -> None:
    (password,) = SERVICES["valkey"]["environment"].values()
    assert "requirepass" in " ".join(SERVICES["valkey"]["command"])
    for name in OURS:
        assert f"redis://:{password}@" in SERVICES[name]["environment"]["SLUICE_CELERY_BROKER_URL"]


def test_nothing_is_published_but_the_console_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert list(published) == ["web"]
    assert all(port.startswith("127.0.0.1:") for port in published["web"])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_comes_back_and_may_end_in_peace(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
    if name not in {"migrate", "valkey"}:
        assert seconds(service["stop_grace_period"]) >= 15


def test_a_worker_may_finish_the_batch_it_is_at() -> None:
    longest = Queue._meta.get_field("handler_timeout_seconds").default
    stop = unit(ROOT / "deploy/systemd/sluice-worker@.service")["Service"]["TimeoutStopSec"]
    assert seconds(SERVICES["worker"]["stop_grace_period"]) > longest
    assert int(stop) == seconds(SERVICES["worker"]["stop_grace_period"])


@pytest.mark.parametrize("name", sorted(OURS - {"migrate"}))
def test_everything_waits_for_the_migration(name: str) -> None:
    waits = {other: on["condition"] for other, on in SERVICES[name]["depends_on"].items()}
    assert waits["migrate"] == "service_completed_successfully"
    assert set(waits) <= set(SERVICES)
    with_health = {other for other, how in waits.items() if how == "service_healthy"}
    assert all("healthcheck" in SERVICES[other] for other in with_health)
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_containers_may_do_no_more_than_they_must(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "user", "network_mode", "cap_add"} & set(service)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_container_may_take_all_of_the_host_or_gain_rights(name: str) -> None:
    service = SERVICES[name]
    assert {"mem_limit", "cpus", "pids_limit"} <= set(service)
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    # Only the servers that begin as root, to hand their files over.
    assert ("cap_add" in service) == (name in {"postgres", "valkey"})


def read_variables() -> set[str]:
    variables = Recording(example())
    env.read(variables)
    return variables.asked


@pytest.mark.parametrize("file", ENV_FILES, ids=lambda file: file.name)
def test_every_variable_of_an_example_is_one_that_is_read(file: Path) -> None:
    names = {name for name in kept_of(file) if name.startswith("SLUICE_")}
    assert not names - read_variables()


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_container_has_every_variable_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["env_file"] == [".env"]
    given = {**kept_of(ENV_FILES[0]), **service["environment"]}
    assert not REQUIRED - set(given)
    assert not set(service["environment"]) - read_variables()


def test_the_compose_file_asks_for_nothing_its_example_does_not_name() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert asked == set(kept_of(ENV_FILES[0])) - {
        name for name in kept_of(ENV_FILES[0]) if name.startswith("SLUICE_")
    }


@pytest.mark.parametrize("file", ENV_FILES, ids=lambda file: file.name)
def test_a_filled_example_describes_an_installation(file: Path) -> None:
    filled = {name: value for name, value in example().items() if name in REQUIRED}
    filled["SLUICE_SECRET_KEY"] = secrets.token_urlsafe(48)
    filled["SLUICE_ENCRYPTION_KEYS"] = Fernet.generate_key().decode()
    written = {name: value for name, value in kept_of(file).items() if value}

    read = env.read({**filled, **written})

    assert read.https
    assert read.environment == "production"
    assert all(origin.startswith("https://") for origin in read.csrf_trusted_origins)


@pytest.mark.parametrize("file", ENV_FILES, ids=lambda file: file.name)
def test_no_example_comes_with_a_secret(file: Path) -> None:
    secret = {
        "POSTGRES_PASSWORD",
        "VALKEY_PASSWORD",
        "SLUICE_SECRET_KEY",
        "SLUICE_ENCRYPTION_KEYS",
    }
    assert not {name: value for name, value in kept_of(file).items() if name in secret and value}


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_unit_is_restarted_and_stopped_gently(file: Path) -> None:
    service = unit(file)["Service"]
    assert service["Restart"] == "always"
    assert service["KillMode"] == "mixed"
    assert service["User"] == "sluice"
    assert service["EnvironmentFile"] == "/etc/sluice/sluice.env"
    assert service["Type"] == ("notify" if "web" in file.name else "exec")
    assert int(service["TimeoutStopSec"]) >= 15
    assert unit(file)["Unit"]["PartOf"] == "sluice.target"
    # A single % would be replaced by systemd itself.
    assert "@%h" not in re.sub("%%", "", service["ExecStart"])


def test_the_target_starts_every_unit() -> None:
    wanted = unit(ROOT / "deploy/systemd/sluice.target")["Unit"]["Wants"].split()
    started = {re.sub(r"@\d+", "@", name) for name in wanted}
    assert started | set(ON_REQUEST.values()) == {file.name for file in UNITS}
    assert not started & set(ON_REQUEST.values())
    assert all(unit(file)["Install"]["WantedBy"] == "sluice.target" for file in UNITS)
    assert {file for _, file in PROCESSES.values()} == {file.name for file in UNITS}


def test_the_servers_of_the_tutorial_are_those_of_the_compose_file() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    [found] = re.findall(r"(?ms)^```yaml\n(services:\n.*?)^```$", page)
    services = yaml.safe_load(found)["services"]
    images = {name: service["image"] for name, service in services.items()}
    assert images == {name: COMPOSE["services"][name]["image"] for name in SERVERS}


def test_the_kafka_that_the_tutorial_has_from_maven_is_that_of_the_compose_file() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    [found] = re.findall(r"<artifactId>(kafka)_.*</artifactId>\s*<version>(.+)</version>", page)
    assert f"apache/{':'.join(found)}" == COMPOSE["services"]["kafka"]["image"]
