"""`manage.py publish`: a file, or what comes in, through a channel."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from integration.models import OutboxRow, PublishChannel
from tests.support.channels import a_channel

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def order(tmp_path: Path) -> Path:
    path = tmp_path / "order.json"
    path.write_text('{"ponum": "4711"}')
    return path


def command(*arguments: object) -> tuple[str, str]:
    said, complained = io.StringIO(), io.StringIO()
    call_command("publish", *map(str, arguments), stdout=said, stderr=complained)
    return said.getvalue(), complained.getvalue()


def test_a_file_is_published_and_its_ids_are_told(order: Path) -> None:
    a_channel("MXPO", "erp", "wms")
    said, _ = command("MXPO", order, "--key", "4711")
    rows = OutboxRow.objects.order_by("id")
    assert said == "".join(
        f"{system}: {row.message_id}\n" for system, row in zip(("erp", "wms"), rows, strict=True)
    )
    assert {bytes(row.key or b"") for row in rows} == {b"4711"}


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    a_channel("MXPO", "erp", format="xml", envelope=False)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"<PO/>")))
    command("MXPO", "-")
    assert bytes(OutboxRow.objects.get().value or b"") == b"<PO/>"


def test_what_is_wrong_is_told_with_its_code(order: Path) -> None:
    with pytest.raises(CommandError, match=r"^UNKNOWN_CHANNEL: .*MXPO"):
        command("MXPO", order)
    a_channel("MXPO", "erp", format="xml")
    with pytest.raises(CommandError, match=r"^PAYLOAD_FORMAT: MXPO"):
        command("MXPO", order)
    with pytest.raises(CommandError, match=r"gone\.json .*No such file"):
        command("MXPO", order.with_name("gone.json"))
    assert not OutboxRow.objects.exists()


def test_a_channel_that_is_off_says_so(order: Path) -> None:
    a_channel("MXPO", "erp")
    PublishChannel.objects.update(enabled=False)
    said, complained = command("MXPO", order)
    assert said == ""
    assert "MXPO" in complained
