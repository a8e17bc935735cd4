"""The manifests for Kubernetes: by its schemas, by our rules, and in step with the compose file."""

import re
from typing import Final

import kubernetes_validate
import pytest

from crontasks import alive
from sluice import env
from tests.support.deployed import PINNED, ROOT, SERVICES, command_of
from tests.support.manifests import (
    FOLDER,
    LOOKS,
    WRITTEN,
    containers,
    documents,
    kustomizations,
    of_kind,
    pods,
)
from tests.unit.test_deployment import essence, read_variables, seconds
from tests.unit.test_env import REQUIRED

pytestmark = pytest.mark.fast

# The newest and the oldest that is still kept by those who make Kubernetes.
VERSIONS: Final = ("1.37", "1.33")
# Of a command that is the image's own, nothing stands in the manifest.
OF_IMAGE: Final = {"web"}
SECRET: Final = re.compile(r"PASSWORD|SECRET|_KEYS?$|TOKEN$|_URL$")
PAGE: Final = ROOT / "docs" / "kubernetes.md"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("look", LOOKS)
def test_every_document_is_one_that_kubernetes_takes(look: str, version: str) -> None:
    for document in documents(look):
        kubernetes_validate.validate(document, version, strict=True)


def test_every_file_is_used_and_every_file_that_is_named_is_there() -> None:
    used = set()
    for name, one in kustomizations().items():
        folder = FOLDER / name
        used.add(folder / "kustomization.yaml")
        patches = [patch["path"] for patch in one.get("patches", ()) if "path" in patch]
        for word in (*one.get("resources", ()), *one.get("components", ()), *patches):
            assert (folder / word).exists(), f"{name} names {word}"
            used.add((folder / word).resolve())
    assert set(FOLDER.rglob("*.yaml")) <= used


@pytest.mark.parametrize("look", LOOKS)
def test_the_processes_are_those_of_the_compose_file(look: str) -> None:
    assert set(pods(look)) in ({"web", "worker", "relay", "beat", "migrate"}, set(OURS))
    for name, spec in pods(look).items():
        [container] = spec["containers"]
        assert container["name"] == name
        if name in OF_IMAGE:
            assert "command" not in container
        else:
            assert essence(container["command"]) == essence(command_of(name))
        if name != "migrate":
            grace = spec["terminationGracePeriodSeconds"]
            assert grace >= seconds(SERVICES[name]["stop_grace_period"])


OURS: Final = [name for name, one in SERVICES.items() if str(one["image"]).startswith("sluice")]


@pytest.mark.parametrize("look", LOOKS)
def test_no_container_may_do_or_take_more_than_it_must(look: str) -> None:
    for name, spec in pods(look).items():
        own = spec["securityContext"]
        assert own["runAsNonRoot"] is True, name
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not [one for one in spec["volumes"] if "hostPath" in one]
    for name, container in containers(look).items():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        for what in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(container["resources"][what]), name


@pytest.mark.parametrize("look", LOOKS)
def test_no_secret_stands_in_the_clear(look: str) -> None:
    assert not of_kind(look, "Secret")
    for name, container in containers(look).items():
        assert {one["name"] for one in container.get("env", ())} <= {"PGOPTIONS"}, name
        assert {"secretRef": {"name": "sluice-secrets"}} in container["envFrom"]
    for name, kustomization in kustomizations().items():
        assert "secretGenerator" not in kustomization, name
        for variable in settings_of(kustomization):
            assert not SECRET.search(variable), f"{name} holds {variable}"


def settings_of(kustomization: dict) -> set[str]:
    made = kustomization.get("configMapGenerator", ())
    return {line.partition("=")[0] for one in made for line in one["literals"]}


def test_every_setting_is_one_that_is_read_and_none_that_is_needed_is_forgotten() -> None:
    given = set().union(*map(settings_of, kustomizations().values()))
    assert not given - read_variables()
    told = set(re.findall(r"SLUICE_[A-Z_]+", PAGE.read_text()))
    assert not REQUIRED - given - told, "the page says how the secret is made"
    assert not told - read_variables()


def test_every_image_has_a_version() -> None:
    names = {container["image"] for container in containers(WRITTEN).values()}
    for kustomization in kustomizations().values():
        for image in kustomization.get("images", ()):
            assert PINNED.fullmatch(f"{image['name']}:{image['newTag']}")
            names.discard(image["name"])
    assert not names


@pytest.mark.parametrize("look", [look for look in LOOKS if look != WRITTEN])
def test_every_image_that_is_made_has_a_version(look: str) -> None:
    for name, container in containers(look).items():
        assert PINNED.fullmatch(container["image"]), name


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_restarted_because_the_database_is_away(look: str) -> None:
    for name, spec in pods(look).items():
        [container] = spec["containers"]
        if name == "web":
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                assert container[probe]["httpGet"]["path"] == "/healthz"
        elif name != "migrate":
            assert not {"livenessProbe", "startupProbe"} & set(container)
            asked = container["readinessProbe"]["exec"]["command"]
            assert asked == ["python", "-m", "crontasks.alive", name]
            assert name in alive.KINDS


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_of_a_version_begins_before_its_migrations_are_through(look: str) -> None:
    for name, spec in pods(look).items():
        waits = [one["command"] for one in spec.get("initContainers", ())]
        expected = [] if name == "migrate" else [["python", "manage.py", "migrate", "--check"]]
        assert waits == expected, name


@pytest.mark.parametrize("look", LOOKS)
def test_there_is_one_relay_and_its_successor_waits_for_it(look: str) -> None:
    relay = of_kind(look, "Deployment")["sluice-relay"]["spec"]
    assert relay["replicas"] == 1
    assert relay["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("look", LOOKS)
def test_what_selects_pods_finds_them(look: str) -> None:
    for name, one in of_kind(look, "Deployment").items():
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"] == labels
        for kind, where in (("Service", "selector"), ("PodDisruptionBudget", "selector")):
            selecting = of_kind(look, kind).get(name)
            if selecting is not None:
                chosen = selecting["spec"][where]
                assert chosen.get("matchLabels", chosen) == labels


def test_a_budget_never_keeps_a_node_from_being_drained() -> None:
    replicas = {
        name: one["spec"]["replicas"] for name, one in of_kind(WRITTEN, "Deployment").items()
    }
    budgets = of_kind(WRITTEN, "PodDisruptionBudget")
    assert budgets
    assert all(replicas[name] > 1 for name in budgets)


@pytest.mark.parametrize("look", LOOKS)
def test_only_the_console_is_asked_from_outside(look: str) -> None:
    policies = of_kind(look, "NetworkPolicy")
    assert "ingress" not in policies["sluice-nobody"]["spec"]
    open_to = policies["sluice-web"]["spec"]
    assert open_to["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "web"
    assert [port["port"] for rule in open_to["ingress"] for port in rule["ports"]] == [8000]
    assert [one["metadata"]["name"] for one in documents(look) if one["kind"] == "Service"] == [
        "sluice-web"
    ]


def test_the_settings_of_the_base_describe_an_installation() -> None:
    literals = kustomizations()["base"]["configMapGenerator"][0]["literals"]
    written = dict(line.split("=", 1) for line in literals)
    assert written["SLUICE_ENVIRONMENT"] not in env.WITHOUT_SECRETS
    assert written["SLUICE_HTTPS"] == "1"
