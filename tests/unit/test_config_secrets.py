"""A configuration file refers to partners' secrets, and never to what keeps this one safe."""

import pytest

from crontasks.configfile.secrets import Names, SecretReferenceError, resolve
from tests.unit.test_env import example

pytestmark = pytest.mark.fast


def resolved(name: str) -> str:
    return resolve(f"${{ENV:{name}}}", "", {name: "what it holds"}.get)


DEPLOYED = {"SLUICE_ROLE_PASSWORD", "POSTGRES_PASSWORD", "VALKEY_PASSWORD"}


@pytest.mark.parametrize("name", sorted({*example(), *DEPLOYED}))
def test_no_setting_of_this_installation_can_be_referred_to(name: str) -> None:
    with pytest.raises(SecretReferenceError):
        resolved(name)


def test_what_an_export_names_and_what_people_name_can_be() -> None:
    exported = Names().reference("providers", "plant", "password")
    assert resolve(exported, "", {exported[6:-1]: "s3cret"}.get) == "s3cret"
    assert resolved("PLANT_KAFKA_PASSWORD") == "what it holds"
