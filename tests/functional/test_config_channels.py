"""Channels and their targets in the configuration file."""

from pathlib import Path

import pytest

from integration.models import ConfigurationChange, ExternalSystem, PublishChannel
from tests.functional.config_world import Config, a_channel_with_targets, a_whole_configuration

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path)


def test_targets_are_told_apart_by_channel_and_system(config: Config) -> None:
    a_whole_configuration()
    a_channel_with_targets()
    text = config("export")[1]
    assert "- channel: MXPO Interface\n  system: eam\n" in text

    code, said = config("plan", text=text.replace("system: wms\n  enabled: false", "system: wms"))
    assert (code, said) == (0, "No changes.\n"), "what is left out stays"
    switched = text.replace("system: wms\n  enabled: false", "system: wms\n  enabled: true")
    code, said = config("apply", text=switched)
    assert code == 0
    assert "~ target MXPO Interface to wms" in said
    change = ConfigurationChange.objects.get()
    assert (change.name, change.system) == (
        "MXPO Interface to wms",
        ExternalSystem.objects.get(name="wms"),
    )


def test_a_target_needs_both_its_names_and_fits_its_system(config: Config) -> None:
    a_whole_configuration()
    a_channel_with_targets()
    text = """format: 1
channel_targets:
- channel: MXPO Interface
  queue: out
- channel: MXPO Interface
  system: wms
  queue: assets
- channel: MXPO Interface
  system: wms
  queue: out
"""
    code, said = config("plan", text=text)
    assert code == 1
    assert "line 3: channel_targets: " in said
    assert "line 7: channel_targets MXPO Interface to wms, queue: " in said
    assert "line 8: channel_targets MXPO Interface to wms: " in said


def test_pruning_removes_a_target_and_leaves_its_channel(config: Config) -> None:
    a_whole_configuration()
    a_channel_with_targets()
    text = """format: 1
channel_targets:
- channel: MXPO Interface
  system: eam
"""
    code, said = config("apply", "--prune", text=text)
    assert (code, said.count("- target MXPO Interface to wms")) == (0, 1), said
    assert [str(target) for target in PublishChannel.objects.get().targets.all()] == [
        "MXPO Interface to eam"
    ]
