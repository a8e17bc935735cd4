"""The commands on the pages for installing, upgrading and backing up: in step with what is shipped.

What they do is tried by people; here stands what a reader could not see is missing.
"""

import re

import pytest

from tests.support.deployed import OURS, ROOT, SERVICES, UNITS

pytestmark = pytest.mark.fast


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def commands(text: str) -> list[str]:
    """The lines of its blocks of code, without comments."""
    blocks = re.findall(r"(?ms)^ *```\n(.*?)^ *```$", text)
    lines = (re.sub(r"\s+#.*", "", line).strip() for block in blocks for line in block.split("\n"))
    return [line for line in lines if line]


def test_a_backup_is_restored_as_what_the_role_of_the_installation_owns() -> None:
    lines = commands(page("backup"))
    made = [line for line in lines if line.startswith("createdb")]
    restored = [line for line in lines if line.startswith("pg_restore")]
    assert len(made) == len(restored) == 2, "one to restore, one to rehearse"
    # The role itself may make no database, and what another one restores is closed to it.
    assert all("--owner=sluice" in line for line in made)
    assert all("--role=sluice" in line for line in restored)
    assert all("--exit-on-error" in line for line in restored)


@pytest.mark.parametrize("name", ["backup", "install", "upgrade"])
def test_no_command_shows_the_databases_password_in_the_list_of_processes(name: str) -> None:
    assert not re.findall(r"\$\{?SLUICE_DATABASE_URL", page(name))


@pytest.mark.parametrize("name", ["install", "upgrade"])
def test_an_image_with_handlers_is_built_on_ours_and_never_by_compose(name: str) -> None:
    text = page(name)
    own = [line for line in commands(text) if line.startswith("docker build ")]
    for service in OURS:
        image = SERVICES[service]["image"].partition(":")[0]
        target = SERVICES[service]["build"]["target"]
        [base] = {
            found[1]
            for line in own
            if (found := re.search(rf"--target {target} --tag ({image}:\S+|{image}:<.*>) \.", line))
        }
        # What is built on it has another tag, under which the compose file starts it.
        built = [line for line in own if f"--tag {image}:plant-" in line]
        assert built, f"{image} with handlers"
        assert all(f"BASE={base}" in line or base == example_base() for line in built)
    assert "docker compose build" in text, "it says where not to"
    assert "under your tag" in text


def example_base() -> str:
    """What the Dockerfile of an image with handlers is built on where nothing is said."""
    [base] = re.findall(r"(?m)^ARG BASE=(\S+)$", page("install"))
    return str(base)


def test_an_upgrade_restarts_every_process() -> None:
    lines = commands(page("upgrade"))
    started = {word for line in lines if "docker compose" in line for word in line.split()}
    assert set(OURS) <= started
    restarted = " ".join(line for line in lines if "systemctl" in line)
    assert not [file.stem for file in UNITS if file.stem not in restarted]


def test_nothing_is_asked_of_pods_before_they_are_there() -> None:
    lines = commands(page("kubernetes"))
    deployed = {service for service in OURS - {"migrate"} if "profiles" not in SERVICES[service]}
    for applied in (place for place, line in enumerate(lines) if "apply -k" in line):
        after = lines[applied + 1 :]
        waited = next(place for place, line in enumerate(after) if "rollout status" in line)
        assert not [line for line in after[:waited] if " exec " in line]
        assert deployed <= set(re.findall(r"\w+", after[waited]))
