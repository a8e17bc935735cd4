"""A configuration file over HTTP sends no stored secret to another destination."""

import json
from pathlib import Path
from typing import Final

import pytest

from crontasks.models import CronInstance
from integration.models import Endpoint, ExternalSystem, Provider
from integration.sealed import seal
from tests.functional.config_world import Config
from tests.support.http_api import problem
from tests.support.operator_api import Program, a_program, facts

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
AT_ERP: Final = {"url": "https://erp.example/in", "auth": "basic", "username": "sluice"}


@pytest.fixture
def program() -> Program:
    return a_program()


class TestSecretsInAFile:
    """What a file keeps is sent where it was stored for, and nowhere else."""

    @pytest.fixture
    def endpoint(self) -> Endpoint:
        return Endpoint.objects.create(
            name="erp",
            system=ExternalSystem.objects.create(name="eam"),
            endpoint_type="http",
            properties=AT_ERP,
            secrets=json.dumps({"password": "s3cret"}),
        )

    @pytest.fixture
    def provider(self) -> Provider:
        return Provider.objects.create(
            name="plant",
            bootstrap_servers="a:1",
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            username="sluice",
            password="s3cret",
            registry_url="https://registry.example",
            registry_password="s3cret",
        )

    @pytest.mark.parametrize("kept", [{}, {"secrets": "kept"}, {"secrets": {"password": "kept"}}])
    def test_an_endpoints_are_not_sent_to_another_host(
        self, program: Program, endpoint: Endpoint, kept: dict[str, object]
    ) -> None:
        file = _file("endpoints", name="erp", properties={**AT_ERP, "url": "https://x/"}, **kept)
        for answer in (
            program.post("/configuration/plans", file),
            program.put("/configuration", file),
        ):
            said = problem(answer, 422, "SECRET_DESTINATION")
            [mistake] = said["mistakes"]
            assert mistake["text"].startswith("endpoints erp, secrets.password: ")
        endpoint.refresh_from_db()
        assert endpoint.properties == AT_ERP

    def test_an_endpoints_are_not_given_to_another_type(
        self, program: Program, endpoint: Endpoint
    ) -> None:
        there = {"host": "x", "port": 5432, "database": "d", "username": "u", "statement": "s"}
        file = _file("endpoints", name="erp", endpoint_type="database", properties=there)
        problem(program.put("/configuration", file), 422, "SECRET_DESTINATION")
        endpoint.refresh_from_db()
        assert endpoint.endpoint_type == "http"

    def test_another_path_of_the_same_host_is_no_other_destination(
        self, program: Program, endpoint: Endpoint
    ) -> None:
        moved = {**AT_ERP, "url": "https://erp.example/orders"}
        facts(program.put("/configuration", _file("endpoints", name="erp", properties=moved)))
        endpoint.refresh_from_db()
        assert (endpoint.properties, bool(endpoint.secrets)) == (moved, True)

    def test_without_its_secrets_it_may_lead_anywhere(
        self, program: Program, endpoint: Endpoint
    ) -> None:
        moved = {"url": "https://x/"}
        file = _file("endpoints", name="erp", properties=moved, secrets={})
        facts(program.put("/configuration", file))
        endpoint.refresh_from_db()
        assert (endpoint.properties, endpoint.secrets) == (moved, "")

    @pytest.mark.parametrize(
        ("moved", "kept"),
        [
            ({"bootstrap_servers": "x:1"}, "password"),
            ({"security_protocol": "SASL_PLAINTEXT"}, "password"),
            ({"properties": {"broker.address.family": "v4"}}, "password"),
            ({"registry_url": "https://x"}, "registry_password"),
        ],
    )
    def test_a_providers_are_not_sent_elsewhere(
        self, program: Program, provider: Provider, moved: dict[str, object], kept: str
    ) -> None:
        file = _file("providers", name="plant", **moved)
        said = problem(program.put("/configuration", file), 422, "SECRET_DESTINATION")
        [mistake] = said["mistakes"]
        assert mistake["text"].startswith(f"providers plant, {kept}: ")
        name = next(iter(moved))
        before = getattr(provider, name)
        provider.refresh_from_db()
        assert getattr(provider, name) == before

    def test_what_leads_nowhere_else_is_changed_beside_them(
        self, program: Program, provider: Provider
    ) -> None:
        file = _file("providers", name="plant", shards=2, properties={"linger.ms": 5})
        facts(program.put("/configuration", file))
        provider.refresh_from_db()
        assert (provider.shards, provider.password) == (2, "s3cret")

    def test_a_cron_tasks_are_not_given_to_another_task(self, program: Program) -> None:
        parameters = {"name": "ours", "token": seal("s3cret")}
        row = CronInstance.objects.create(
            name="Typed", task="typed", interval_seconds=60, parameters=parameters
        )
        file = _file("cron_instances", name="Typed", task="rescue")
        said = problem(program.put("/configuration", file), 422, "SECRET_DESTINATION")
        assert "cron_instances Typed, parameters.token: " in json.dumps(said)
        row.refresh_from_db()
        assert row.task == "typed"

    def test_at_the_terminal_they_may_be(self, endpoint: Endpoint, tmp_path: Path) -> None:
        moved = {**AT_ERP, "url": "https://x/"}
        text = _file("endpoints", name="erp", properties=moved).decode()
        code, said = Config(tmp_path)("apply", text=text)
        assert code == 0, said
        endpoint.refresh_from_db()
        assert (endpoint.properties, bool(endpoint.secrets)) == (moved, True)


def _file(section: str, **entry: object) -> bytes:
    """A file with one entry; JSON is YAML, too."""
    return json.dumps({"format": 1, section: [entry]}).encode()
