"""What an archive calls its installation: a part of a file's name, and no other's."""

import re
from pathlib import Path
from typing import Any

import pytest

from crontasks.bulk.job_requests.archive import ArchiveRequest
from spark_jobs.archive.parameters import ArchivedKind

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
# Deployment and environment of installations that may archive into one folder.
NAMES = (
    ("erp.eu", "prod"),
    ("erp", "eu.prod"),
    ("erp-eu", "prod"),
    ("erp_eu", "prod"),
    ("ERP.eu", "prod"),
    ("my plant %41+ü*[a]", "prod"),
    ("ä" * 40, "prod"),
    ("ä" * 40, "test"),
    ("x" * 200, "prod"),
)


def name_of(deployment: str, environment: str, settings: Any) -> str:
    settings.SLUICE_DEPLOYMENT, settings.SLUICE_ENVIRONMENT = deployment, environment
    return str(ArchiveRequest(kind=ArchivedKind.RUNS).parameters()["installation"])


def test_no_two_installations_share_a_name(tmp_path: Path, settings: Any) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    names = [name_of(*both, settings) for both in NAMES]
    assert len({name.casefold() for name in names}) == len(NAMES)
    # Any file system takes it, no pattern and no hyphen is in it, and a person knows it again.
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_.]{1,40}", name)] == []
    assert names[0].startswith("erp.eu.prod.")
    assert names[0] == name_of(*NAMES[0], settings)
