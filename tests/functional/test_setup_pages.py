"""Setting up over HTTP: each noun's pages, who may change what, the audit of every change."""

import json
from contextlib import nullcontext
from html import unescape

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.layout.access import Right
from console.setup.noun import SHARED
from integration.models import (
    ConfigurationChange,
    Endpoint,
    ExternalSystem,
    ObjectStructure,
)
from tests.support.rows import a_held, a_queue_row
from tests.support.set_up import NOUNS, a_form, a_row, as_entered, forms, limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

ODD_PAGES = ("page=-1", "page=x", f"page={'9' * 30}", "per_page=-1")


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


def label_of(noun: str) -> str:
    return "interface" if noun == "service" else "name"


@pytest.mark.parametrize("noun", NOUNS)
class TestEveryNoun:
    def test_a_new_one_is_stored_with_one_row_of_audit_and_never_twice(
        self, client: Client, noun: str
    ) -> None:
        missing = client.post(reverse(f"{noun}-new"), {})
        assert missing.status_code == 422
        assert "This field is required" in missing.text
        assert "Nothing was saved" in missing.text
        assert not ConfigurationChange.objects.exists()

        entered = {**forms()[noun], "reason": "a new partner"}
        assert client.get(reverse(f"{noun}-new")).status_code == 200
        answer = client.post(reverse(f"{noun}-new"), entered)
        change = ConfigurationChange.objects.get()
        assert answer.status_code == 303
        assert (change.actor, change.action, change.before) == ("anna", "create", None)
        assert change.reason == "a new partner"
        page = client.get(answer["Location"]).text
        assert "a new partner" in page
        assert change.name in page

        taken = client.post(reverse(f"{noun}-new"), entered)
        assert taken.status_code == 422
        assert "already exists" in taken.text
        assert ConfigurationChange.objects.get() == change

    def test_a_change_has_before_and_after_and_none_leaves_no_trace(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        label = label_of(noun)
        address = reverse(f"{noun}-change", args=[row.pk])
        entered = as_entered(client, noun, row)
        answer = client.post(address, entered)
        assert answer.status_code == 303, unescape(answer.text)
        unseen = {name: value for name, value in entered.items() if name != "seen"}
        assert client.post(address, unseen).status_code == 409
        assert not ConfigurationChange.objects.exists()

        answer = client.post(address, {**entered, label: "renamed", "reason": "misspelt"})
        assert answer.status_code == 303, unescape(answer.text)
        change = ConfigurationChange.objects.get()
        assert change.before == {label: getattr(row, label)}
        assert change.after == {label: "renamed"}
        audit = client.get(reverse("changes")).text
        for words in (change.before[label], "renamed", "misspelt", "anna"):
            assert words in audit

        # Whoever saves second is shown both, and overwrites nothing.
        mine = {**entered, label: "mine"}
        refused = client.post(address, mine)
        row.refresh_from_db()
        assert refused.status_code == 409
        assert getattr(row, label) == "renamed"
        shown = unescape(refused.text)
        for words in ("changed by somebody else", "renamed", 'value="mine"', "anna", "misspelt"):
            assert words in shown
        again = client.post(address, {**mine, "seen": refused.context["seen"]})
        row.refresh_from_db()
        assert (again.status_code, getattr(row, label)) == (303, "mine")

    def test_a_clone_begins_with_the_same_values_and_a_free_name(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        form = client.get(f"{reverse(f'{noun}-new')}?like={row.pk}").context["form"]
        label = label_of(noun)
        assert form[label].value() == f"{getattr(row, label)}-copy"
        sent = {name: form[name].value() for name in form.fields if form[name].value() is not None}
        answer = client.post(reverse(f"{noun}-new"), sent)
        assert answer.status_code == 303, unescape(answer.text)

    def test_who_may_not_change_it_gets_no_form_and_who_deletes_it_says_why(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        viewer = logged_in("Viewers")
        pages = [reverse(f"{noun}s"), reverse(f"{noun}-new")]
        pages += [reverse(name, args=[row.pk]) for name in (noun, f"{noun}-change")]
        for page in pages:
            assert Right.CONFIGURE.missing in unescape(viewer.get(page).text), page
        address = reverse(f"{noun}-delete", args=[row.pk])
        for one in (reverse(f"{noun}-change", args=[row.pk]), address):
            assert viewer.get(one).status_code == 403
            answer = viewer.post(one, {"reason": "x", "name": str(row)})
            assert answer.status_code == 403
        assert viewer.post(reverse(f"{noun}-new"), forms()[noun]).status_code == 403
        assert not ConfigurationChange.objects.exists()

        assert client.get(address).status_code == 200
        assert client.post(address, {"name": str(row)}).status_code == 422
        assert client.post(address, {"name": str(row), "reason": "x"}).status_code == 303
        change = ConfigurationChange.objects.get()
        assert (change.action, change.after, change.reason) == ("delete", None, "x")
        assert client.get(address).status_code == 404
        assert str(row) in client.get(reverse("change", args=[change.pk])).text


@pytest.mark.parametrize("noun", NOUNS)
def test_a_list_of_many_takes_as_many_queries_and_has_a_page_for_whatever_is_asked(
    client: Client, noun: str
) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(reverse(f"{noun}s")).status_code == 200
        return len(captured)

    row = a_row(noun)
    asked()
    for_one = asked()
    label = label_of(noun)
    for number in range(5):
        row.pk = None
        setattr(row, label, f"copy-{number}")
        row.save(force_insert=True)
    assert asked() <= for_one
    assert for_one <= 15
    # One road for all of them: what is asked for differs from noun to noun.
    for query in ODD_PAGES[NOUNS.index(noun) % 2 :: 2]:
        answer = client.get(f"{reverse(f'{noun}s')}?{query}")
        assert answer.status_code == 200, query
        assert len(answer.context["table"].paginated_rows) > 0, query


class TestSwitches:
    @pytest.mark.parametrize("noun", ["system", "service"])
    def test_the_switch_says_what_stops_and_is_safe_to_press_twice(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        if noun == "system":
            a_queue_row(system=row)
            a_queue_row("continuous", system=row)
        page = client.get(reverse(noun, args=[row.pk])).text
        assert "Switching it off stops" in page
        if noun == "system":
            assert "2 inbound queues: 1 sequential" in page
        form = client.get(reverse(f"{noun}-change", args=[row.pk])).text
        # A service is switched on its page alone, where it asks back.
        assert ("Switching it off stops" in form) is (noun == "system")
        assert ("the switch is on its page" in unescape(form)) is (noun == "service")
        address = reverse(f"{noun}-switch", args=[row.pk])
        for _ in range(2):
            client.post(address, {"to": "off", "reason": "holiday"})
        change = ConfigurationChange.objects.get()
        assert (change.before, change.after) == ({"enabled": True}, {"enabled": False})
        # Nobody takes the sample's service: it is switched on by who says so twice.
        client.post(address, {"to": "on", "sure": "1"})
        row.refresh_from_db()
        assert row.enabled

    @pytest.mark.parametrize("to", ["", "maybe"])
    def test_a_form_that_does_not_say_which_way_switches_nothing(
        self, client: Client, to: str
    ) -> None:
        row = a_row("system")
        answer = client.post(reverse("system-switch", args=[row.pk]), {"to": to})
        row.refresh_from_db()
        assert (answer.status_code, row.enabled) == (400, True)


class TestUses:
    def test_what_is_used_is_not_deleted_and_says_by_whom(self, client: Client) -> None:
        system = a_row("system")
        queue = a_queue_row(system=system)
        address = reverse("system-delete", args=[system.pk])
        assert queue.name in client.get(address).text
        answer = client.post(address, {"name": system.name, "reason": "gone"})
        assert answer.status_code == 409
        assert f"still needed by queue {queue.name}" in unescape(answer.text)
        assert not ConfigurationChange.objects.exists()

    def test_a_grave_deletion_asks_for_the_name(self, client: Client) -> None:
        system = a_row("system")
        answer = client.post(
            reverse("system-delete", args=[system.pk]), {"name": "other", "reason": "x"}
        )
        assert answer.status_code == 422
        assert f"Type “{system.name}” to confirm" in answer.text

    def test_a_system_shows_its_queues_and_what_is_held(self, client: Client) -> None:
        system = a_row("system")
        queue = a_queue_row(system=system)
        a_held(queue)
        page = client.get(reverse("system", args=[system.pk])).text
        assert queue.name in page
        assert "Messages on hold: 1" in page
        assert ">1<" in client.get(reverse("systems")).text


class TestLimits:
    def test_a_limited_person_knows_of_their_systems_only(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=n) for n in ("mine", "other"))
        hidden = Endpoint.objects.create(name="secluded", system=other, endpoint_type="http")
        client = limited_to(mine)
        assert "other" not in client.get(reverse("systems")).text
        assert "secluded" not in client.get(reverse("endpoints")).text
        for name, row in (("system", other), ("endpoint", hidden)):
            for page in (name, f"{name}-change", f"{name}-delete"):
                assert client.get(reverse(page, args=[row.pk])).status_code == 404
                assert client.post(reverse(page, args=[row.pk])).status_code == 404
        assert client.post(reverse("system-switch", args=[other.pk])).status_code == 404

    def test_they_change_their_system_and_its_endpoints_and_nothing_shared(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=n) for n in ("mine", "other"))
        client = limited_to(mine)
        entered = {**as_entered(client, "system", mine), "description": "ours"}
        assert client.post(reverse("system-change", args=[mine.pk]), entered).status_code == 303
        endpoint = {**forms()["endpoint"], "system": mine.pk}
        assert client.post(reverse("endpoint-new"), endpoint).status_code == 303
        foreign = client.post(
            reverse("endpoint-new"), {**endpoint, "name": "b", "system": other.pk}
        )
        assert foreign.status_code == 422
        for noun in ("service", "structure", "provider", "system"):
            assert SHARED in client.get(reverse(f"{noun}s")).text
            answer = client.post(reverse(f"{noun}-new"), forms()[noun])
            assert answer.status_code == 403
            assert SHARED in answer.text

    def test_the_audit_shows_them_their_systems_changes_only(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=n) for n in ("mine", "other"))
        whole = logged_in()
        for system in (mine, other):
            whole.post(reverse("system-switch", args=[system.pk]), {"to": "off"})
        client = limited_to(mine)
        page = client.get(reverse("changes")).text
        assert reverse("system", args=[mine.pk]) in page
        assert reverse("system", args=[other.pk]) not in page
        hidden = ConfigurationChange.objects.get(name="other")
        assert client.get(reverse("change", args=[hidden.pk])).status_code == 404


class TestMistakes:
    @pytest.mark.parametrize(
        ("noun", "values", "told"),
        [
            ("provider", {"properties": '{"acks": "0"}'}, "acks cannot be set"),
            ("provider", {"properties": "no json"}, "Enter valid JSON"),
            ("provider", {"security_protocol": "SASL_SSL"}, "SASL_SSL needs a SASL mechanism"),
            ("provider", {"username": "u"}, "is not sent with PLAINTEXT"),
            ("provider", {"username": "u", "security_protocol": "SSL"}, "choose SASL_SSL, or"),
            ("provider", {"username": "u", "kind": "jms"}, "is not sent with PLAINTEXT"),
            ("structure", {"key_paths": "assetnum"}, "begins neither with $"),
            ("structure", {"json_schema": '{"type": 5}'}, "Not a JSON Schema"),
            ("structure", {"json_schema": '{"pattern": "(?=a)"}'}, "SCHEMA_UNUSABLE"),
            ("endpoint", {"url": "https://u:p@a.example"}, "not hold a user"),
            ("endpoint", {"url": ""}, "Address is missing"),
            ("endpoint", {"url": "https://a.example/{$.a"}, "a lone {"),
            ("endpoint", {"headers": "X-Key"}, "not written as NAME : VALUE"),
            ("endpoint", {"headers": "Host: b.example"}, "must not be Host"),
            ("endpoint", {"success": "yes"}, "must be HTTP statuses"),
            ("endpoint", {"auth": "bearer"}, "Token is missing"),
            ("endpoint", {"endpoint_type": "file", "file_name": ""}, "File name is missing"),
            (
                "endpoint",
                {"endpoint_type": "file", "file_name": "a", "folder": "../a"},
                "without . and ..",
            ),
            ("system", {"name": "with blanks"}, "only letters, digits, - and _"),
        ],
    )
    def test_it_is_told_beside_the_field(
        self, noun: str, values: dict[str, str], told: str
    ) -> None:
        """By the form itself: that its page is shown again is seen above."""
        form = a_form(noun, **values)
        assert not form.is_valid()
        assert any(told in str(e) for e in form.errors.values())


def nested(levels: int) -> str:
    return '{"not": ' * levels + "{}" + "}" * levels


@pytest.mark.parametrize(
    "text",
    [
        nested(5_000),
        nested(101),
        '{"x": ' + "9" * 5_000 + "}",
        '{"const": NaN}',
        '{"const": 1e999}',
    ],
    ids=["without end", "deep", "a long number", "no number", "infinite"],
)
@pytest.mark.parametrize(
    ("noun", "field"), [("structure", "json_schema"), ("provider", "properties")]
)
def test_json_that_cannot_be_read_or_stored_is_refused_by_its_field(
    text: str, noun: str, field: str
) -> None:
    entered = {**forms()[noun], field: text}
    answer = logged_in(name="anna").post(reverse(f"{noun}-new"), entered)
    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {field}


def test_the_same_is_refused_from_a_file() -> None:
    for levels, is_fine in ((100, True), (101, False)):
        schema = json.loads(nested(levels))
        structure = ObjectStructure(name=f"of-{levels}", key_paths=["$.a"], json_schema=schema)
        with nullcontext() if is_fine else pytest.raises(ValidationError, match="levels deep"):
            structure.full_clean()
