"""The audit of those who change nothing: logins, refusals, payloads seen, files fetched."""

import json
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from console.people.session_limits import BEGAN
from integration.actions import access
from integration.actions.access import BOUNDS, MORE, Access, Act
from integration.models import (
    ConfigurationChange,
    EnterpriseService,
    ObjectStructure,
    StoredObject,
)
from tests.support.bulk_pages import a_file, a_run, assets
from tests.support.every_page import a_world
from tests.support.rows import PASSWORD, a_blocked_queue, a_held, a_person, an_envelope
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def rows(**wanted: Any) -> list[tuple[str, str, str, str]]:
    found = ConfigurationChange.every.filter(is_access=True, **wanted).order_by("id")
    return list(found.values_list("action", "actor", "kind", "name"))


def logged_in(role: str, name: str = "") -> Client:
    client = Client()
    client.force_login(a_person(role, name or f"person-{uuid.uuid4().hex}"))
    return client


def tried(name: str, password: str, address: str = "192.0.2.7") -> Any:
    client = Client(REMOTE_ADDR=address)
    client.post(reverse("login"), {"username": name, "password": password})
    return client


@pytest.mark.usefixtures("valkey")
def test_a_login_a_failed_one_and_a_logout_leave_a_row_each() -> None:
    name = a_person("Viewers", f"person-{uuid.uuid4().hex}").username
    tried(name, "wrong")
    client = tried(name, PASSWORD)
    client.post(reverse("logout"))
    client.post(reverse("logout"))
    assert rows() == [
        ("login-failed", "", "session", name),
        ("login", name, "session", name),
        ("logout", name, "session", name),
    ]
    assert {(row.after or {})["address"] for row in ConfigurationChange.every.all()} == {
        "192.0.2.7"
    }
    assert "wrong" not in str(list(ConfigurationChange.every.values()))


@pytest.mark.usefixtures("valkey")
def test_the_admins_logout_is_the_one_of_the_console() -> None:
    client = logged_in("Administrators", "adam")
    client.post("/admin/logout/")
    assert rows() == [("logout", "adam", "session", "adam")]


@pytest.mark.usefixtures("valkey")
def test_logins_that_are_not_looked_at_leave_one_row_a_minute(settings: Any) -> None:
    settings.SLUICE_LOGIN_TRIES = 1
    name = f"person-{uuid.uuid4().hex}"
    for _ in range(5):
        tried(name, "wrong")
    assert [row[0] for row in rows()] == ["login-failed", "login-refused"]
    for _ in range(2):
        tried(name, "wrong", "192.0.2.8")
    told = ConfigurationChange.every.filter(action="login-refused").values_list("after", flat=True)
    assert list(told.order_by("id")) == [{"address": "192.0.2.7"}, {"address": "192.0.2.8"}]


@pytest.mark.usefixtures("valkey")
def test_a_name_that_was_typed_is_cut_and_its_control_characters_are_spelt_out() -> None:
    tried("\x1b[31m\u202eadmin\r\n" + uuid.uuid4().hex + "x" * 10_000, "wrong")
    [(_, _, _, name)] = rows()
    assert name.startswith(r"\u001b[31m\u202eadmin\u000d\u000a")
    assert name.isprintable()
    assert len(name) <= access.LONGEST_NAME


def test_a_session_that_lasted_too_long_is_a_logout_with_its_reason() -> None:
    client = logged_in("Viewers", "vera")
    session = client.session
    session[BEGAN] = 0
    session.save()
    client.get(reverse("overview"))
    [row] = ConfigurationChange.every.all()
    assert (row.action, row.actor) == ("logout", "vera")
    assert row.reason


def test_a_refusal_leaves_one_row_however_often_it_is_asked_for() -> None:
    client = logged_in("Viewers", "vera")
    for _ in range(3):
        assert client.post(reverse("review"), {"password": "secret"}).status_code == 403
    [row] = ConfigurationChange.every.all()
    assert (row.action, row.actor, row.name) == ("refuse", "vera", f"POST {reverse('review')}")
    assert Right.OPERATE.missing in row.reason
    assert "secret" not in str(row.__dict__)


def test_who_hammers_one_address_after_the_other_does_not_fill_the_table() -> None:
    client = logged_in("Viewers", "vera")
    for number in range(40):
        assert client.post(reverse("run-now", args=[number])).status_code == 403
    assert len(rows(actor="vera")) == 30 + 1
    [more] = ConfigurationChange.every.filter(subject=MORE)
    assert (more.action, more.actor, more.kind) == ("refuse", "vera", "page")
    assert f"POST {reverse('run-now', args=[30])}" in more.reason
    assert logged_in("Viewers", "vic").post(reverse("review")).status_code == 403
    assert len(rows(actor="vic")) == 1, "others are still told of"


@pytest.mark.parametrize("act", [act for act, bound in BOUNDS.items() if bound.a_minute])
def test_what_is_beyond_the_bound_is_one_more_row_a_minute(act: Act) -> None:
    bound = BOUNDS[act].a_minute or 0
    typed = Access(act=act, actor="", kind="session", name=f"more than {bound} within a minute")
    access.note(typed)
    for number in range(bound + 9):
        access.note(replace(typed, name=f"somebody-{number}"))
    assert len(rows(action=act)) == bound + 1
    [more] = ConfigurationChange.every.filter(subject=MORE)
    assert (more.actor, more.action) == ("", act)
    # As it is a minute later, for the row of more alone.
    ConfigurationChange.every.filter(pk=more.pk).update(at=more.at - timedelta(minutes=1))
    for number in range(9):
        access.note(replace(typed, name=f"nobody-{number}"))
    assert len(rows(action=act)) == bound + 2


def test_nothing_is_noted_of_pages_that_show_no_payload() -> None:
    world = a_world()
    client = logged_in("Operators")
    for name in ("failure", "queue", "outbox-row", "tracked-message"):
        parts = {
            "failure": [world["error_id"]],
            "queue": [world["name"]],
            "outbox-row": [world["row_id"]],
        }
        client.get(reverse(name, args=parts.get(name, [])), {"id": "plant/EAM/10"})
    assert rows() == []


def test_a_payload_that_is_seen_again_within_minutes_is_one_row() -> None:
    _, _, error = a_blocked_queue()
    client = logged_in("Editors", "edi")
    for _ in range(3):
        client.get(reverse("failure", args=[error.pk]))
    assert rows() == [("view", "edi", "messageerror", error.message_id)]
    logged_in("Editors", "eve").get(reverse("failure", args=[error.pk]))
    assert len(rows()) == 2
    ConfigurationChange.every.update(at="2026-01-01T00:00Z")
    client.get(reverse("failure", args=[error.pk]))
    assert len(rows()) == 3
    assert "assetnum" not in str(list(ConfigurationChange.every.values()))


def test_every_page_with_a_payload_and_every_file_leaves_a_row() -> None:
    world = a_world()
    client = logged_in("Administrators", "adam")
    failure, row = world["error_id"], world["row_id"]
    seen = [
        ("edit", [failure], ("view", "messageerror")),
        ("record", [failure], ("download", "messageerror")),
        ("document", [failure], ("download", "messageerror")),
        ("outbox-row", [row], ("view", "outboxrow")),
        ("operation", [world["operation_id"]], ("view", "operation")),
        ("operation-report", [world["operation_id"]], ("download", "operation")),
    ]
    for name, parts, noted in seen:
        assert client.get(reverse(name, args=parts)).status_code == 200, name
        assert (noted[0], noted[1]) == rows()[-1][::2], name
    assert len(rows()) == len(seen)


def test_payloads_shown_beside_a_failure_and_files_of_bulk_runs_leave_a_row(
    settings: Any, tmp_path: Path
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    service = EnterpriseService.objects.create(interface="OBEY")
    queue = assets(default_service=service)
    a_held(queue, interface="OBEY", payload=an_envelope({"n": 1}))
    a_track_row(queue, message_id="M-1", payload=b"{}")
    run = a_run(queue, state="DONE")
    a_file(tmp_path, f"exports/{run.pk}/part-0.jsonl", "{}\n")
    a_file(tmp_path, "in/assets.jsonl", '{"assetnum": "A-1", "siteid": "BEDFORD"}\n')
    document = StoredObject.objects.create(
        structure=ObjectStructure.objects.get(),
        key="A-1",
        document={"assetnum": "A-1"},
        arrival_batch=1,
        arrival_index=0,
        updated_at=timezone.now(),
    )
    asked = {"structure": "ASSET", "rejects_queue": queue.name, "source": "in/assets.jsonl"}
    look = {"look": "1", "job_request": json.dumps({**asked, "format": "jsonl"})}
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    admins = reverse("admin:integration_storedobject_change", args=[document.pk])
    seen = [
        (client.get(reverse("tracked-message"), {"id": "M-1"}), ("view", "messagetrack")),
        (client.get(reverse("test-message", args=[queue.name])), ("view", "messageerror")),
        (client.post(reverse("bulk-new", args=["import"]), look), ("view", "bulkpreview")),
        (client.get(reverse("bulk-file", args=[run.pk, "part-0.jsonl"])), ("download", "bulkrun")),
        (client.get(admins), ("view", "storedobject")),
    ]
    assert [answer.status_code for answer, _ in seen] == [200] * len(seen)
    assert [row[::2] for row in rows()] == [noted for _, noted in seen]


def test_a_view_costs_the_page_one_statement() -> None:
    _, _, error = a_blocked_queue()
    client = logged_in("Editors")
    client.get(reverse("failure", args=[error.pk]))
    with CaptureQueriesContext(
        connection,
    ) as seen:
        client.get(reverse("failure", args=[error.pk]))
    assert len([one for one in seen if "integration_configurationchange" in one["sql"]]) == 1


def test_texts_of_any_length_are_noted() -> None:
    long = "\u202e\x00\ud800" * 1_000
    for act in Act:
        access.note(
            Access(
                act=act,
                actor=long,
                kind="page",
                subject=long,
                name=long,
                reason=long,
                facts={"address": long},
            )
        )
    assert len(rows()) == len(Act)


def test_the_list_is_narrowed_by_what_was_done_and_by_whom() -> None:
    _, _, error = a_blocked_queue()
    logged_in("Viewers", "vera").post(reverse("review"))
    logged_in("Editors", "edi").get(reverse("failure", args=[error.pk]))
    client = logged_in("Administrators", "adam")

    def told(**query: str) -> set[str]:
        page = client.get(reverse("changes"), query).context["page"]
        return {change.row.actor for change in page.changes}

    assert told() == set(), "a page of changes is not swamped by who looked"
    assert told(action="access") == {"vera", "edi"}
    assert told(action="every") == {"vera", "edi"}
    assert told(action="refuse") == {"vera"}
    assert told(action="access", actor="edi") == {"edi"}
    page = client.get(reverse("changes"), {"action": "access"}).text
    assert reverse("failure", args=[error.pk]) in page
    assert "Not permitted:" in page
    assert f"POST {reverse('review')}" in page


def test_accesses_are_told_to_those_who_answer_for_people_alone() -> None:
    _, _, error = a_blocked_queue()
    logged_in("Editors", "edi").get(reverse("failure", args=[error.pk]))
    number = ConfigurationChange.every.get().pk
    client = logged_in("Operators")
    for query in ({"action": "access"}, {"action": "view"}, {"actor": "edi"}):
        page = client.get(reverse("changes"), query)
        assert page.context["page"].changes == ()
    assert "Saw a payload" not in client.get(reverse("changes")).text
    assert client.get(reverse("change", args=[number])).status_code == 404
    assert logged_in("Administrators").get(reverse("change", args=[number])).status_code == 200
