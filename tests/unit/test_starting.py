"""What is to be started is named by a command that works in the project it is told in."""

from typing import Any

import pytest

from integration.selectors.starting import start_one

pytestmark = pytest.mark.fast


def test_a_guest_is_told_the_command_of_its_project(settings: Any) -> None:
    assert "manage.py" not in start_one("beat")
    settings.SLUICE_IS_GUEST, settings.SETTINGS_MODULE = True, "shop.settings"
    told = start_one("beat")
    assert "manage.py run_services" in told
    assert f"DJANGO_SETTINGS_MODULE=shop.settings celery -A {settings.SLUICE_APP} beat" in told
