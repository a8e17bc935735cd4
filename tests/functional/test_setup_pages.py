"""Setting up over HTTP: each noun's pages, who may change what, and the audit of every change."""

from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.access import Right
from console.models import Limit
from console.setup.noun import SHARED
from devstack.server import Server
from integration.models import (
    ConfigurationChange,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
)
from tests.support.rows import a_held, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

NOUNS = ("system", "service", "structure", "endpoint", "provider")


def logged_in(role: str = "Administrators", name: str = "") -> Client:
    client = Client()
    client.force_login(a_person(role, name))
    return client


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


def limited_to(*systems: ExternalSystem) -> Client:
    client = logged_in()
    limit = Limit.objects.create(person=User.objects.get(pk=client.session["_auth_user_id"]))
    limit.systems.set(systems)
    return client


def forms() -> dict[str, dict[str, Any]]:
    """What a person enters for a new one of each noun."""
    partner = ExternalSystem.objects.get_or_create(name="partner")[0]
    return {
        "system": {"name": "eam", "description": "the plant", "enabled": "on"},
        "service": {"interface": "MXASSET", "enabled": "on"},
        "structure": {"name": "assets", "key_paths": "$.assetnum\n$.siteid", "tombstone": "hold"},
        "endpoint": {
            "name": "post",
            "system": partner.pk,
            "handler_type": "http",
            "properties": "url = https://partner.example/in",
        },
        "provider": {
            "name": "main",
            "bootstrap_servers": "127.0.0.1:1",
            "security_protocol": "PLAINTEXT",
            "properties": "{}",
        },
    }


def a_row(noun: str) -> Any:
    """One of each noun, made by its form."""
    answer = logged_in().post(reverse(f"{noun}-new"), forms()[noun])
    assert answer.status_code == 303, unescape(answer.text)
    ConfigurationChange.objects.all().delete()
    model: Any = {
        "system": ExternalSystem.objects.exclude(name="partner"),
        "service": EnterpriseService.objects,
        "structure": ObjectStructure.objects,
        "endpoint": Endpoint.objects,
        "provider": Provider.objects,
    }[noun]
    return model.get()


def as_entered(client: Client, noun: str, row: Any) -> dict[str, Any]:
    """The change form's values as a browser would send them back."""
    answer = client.get(reverse(f"{noun}-change", args=[row.pk]))
    form = answer.context["form"]
    # A browser is never given a stored secret, so it sends none back.
    shown = [name for name in form.fields if name not in {"password", "client_key"}]
    found = {name: form[name].value() for name in shown}
    sent = {name: "on" if v is True else v for name, v in found.items() if v not in (None, False)}
    return {**sent, "seen": answer.context["seen"]}


@pytest.mark.parametrize("noun", NOUNS)
class TestEveryNoun:
    def test_a_new_one_is_stored_with_one_row_of_audit(self, client: Client, noun: str) -> None:
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

    def test_what_is_missing_is_told_beside_its_field(self, client: Client, noun: str) -> None:
        answer = client.post(reverse(f"{noun}-new"), {})
        assert answer.status_code == 422
        assert "This field is required" in answer.text
        assert "Nothing was saved" in answer.text
        assert not ConfigurationChange.objects.exists()

    def test_a_name_that_is_taken_is_refused(self, client: Client, noun: str) -> None:
        a_row(noun)
        answer = client.post(reverse(f"{noun}-new"), forms()[noun])
        assert answer.status_code == 422
        assert "already exists" in answer.text

    def test_saving_without_a_change_leaves_no_trace(self, client: Client, noun: str) -> None:
        row = a_row(noun)
        answer = client.post(
            reverse(f"{noun}-change", args=[row.pk]), as_entered(client, noun, row)
        )
        assert answer.status_code == 303, unescape(answer.text)
        assert not ConfigurationChange.objects.exists()

    def test_a_change_has_before_and_after(self, client: Client, noun: str) -> None:
        row = a_row(noun)
        label = "interface" if noun == "service" else "name"
        entered = {**as_entered(client, noun, row), label: "renamed", "reason": "misspelt"}
        answer = client.post(reverse(f"{noun}-change", args=[row.pk]), entered)
        assert answer.status_code == 303, unescape(answer.text)
        change = ConfigurationChange.objects.get()
        assert change.before == {label: getattr(row, label)}
        assert change.after == {label: "renamed"}
        audit = client.get(reverse("changes")).text
        for words in (change.before[label], "renamed", "misspelt", "anna"):
            assert words in audit

    def test_who_saves_second_is_shown_both_and_overwrites_nothing(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        label = "interface" if noun == "service" else "name"
        address = reverse(f"{noun}-change", args=[row.pk])
        mine = {**as_entered(client, noun, row), label: "mine"}
        client.post(address, {**mine, label: "theirs", "reason": "first"})
        refused = client.post(address, mine)
        row.refresh_from_db()
        assert refused.status_code == 409
        assert getattr(row, label) == "theirs"
        shown = unescape(refused.text)
        for words in ("changed by somebody else", "theirs", 'value="mine"', "anna", "first"):
            assert words in shown
        again = client.post(address, {**mine, "seen": refused.context["seen"]})
        row.refresh_from_db()
        assert (again.status_code, getattr(row, label)) == (303, "mine")

    def test_a_form_without_what_it_was_made_from_overwrites_nothing(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        entered = as_entered(client, noun, row)
        del entered["seen"]
        assert client.post(reverse(f"{noun}-change", args=[row.pk]), entered).status_code == 409

    def test_a_clone_begins_with_the_same_values_and_a_free_name(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        form = client.get(f"{reverse(f'{noun}-new')}?like={row.pk}").context["form"]
        label = "interface" if noun == "service" else "name"
        assert form[label].value() == f"{getattr(row, label)}-copy"
        sent = {name: form[name].value() for name in form.fields if form[name].value() is not None}
        answer = client.post(reverse(f"{noun}-new"), sent)
        assert answer.status_code == 303, unescape(answer.text)

    def test_deleting_needs_a_reason_and_is_kept_in_the_audit(
        self, client: Client, noun: str
    ) -> None:
        row = a_row(noun)
        address = reverse(f"{noun}-delete", args=[row.pk])
        assert client.get(address).status_code == 200
        assert client.post(address, {"name": str(row)}).status_code == 422
        assert client.post(address, {"name": str(row), "reason": "x"}).status_code == 303
        change = ConfigurationChange.objects.get()
        assert (change.action, change.after, change.reason) == ("delete", None, "x")
        assert client.get(address).status_code == 404
        assert str(row) in client.get(reverse("change", args=[change.pk])).text

    def test_a_viewer_sees_every_page_and_may_change_nothing(self, noun: str) -> None:
        row = a_row(noun)
        viewer = logged_in("Viewers")
        pages = [reverse(f"{noun}s"), reverse(f"{noun}-new")]
        pages += [reverse(name, args=[row.pk]) for name in (noun, f"{noun}-change")]
        for page in pages:
            assert Right.CONFIGURE.missing in unescape(viewer.get(page).text), page
        for name in (f"{noun}-change", f"{noun}-delete"):
            answer = viewer.post(reverse(name, args=[row.pk]), {"reason": "x", "name": str(row)})
            assert answer.status_code == 403
        assert viewer.post(reverse(f"{noun}-new"), forms()[noun]).status_code == 403
        assert not ConfigurationChange.objects.exists()


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
            assert "2 inbound queues: 1 sequential will wait" in page
        address = reverse(f"{noun}-switch", args=[row.pk])
        for _ in range(2):
            client.post(address, {"to": "off", "reason": "holiday"})
        change = ConfigurationChange.objects.get()
        assert (change.before, change.after) == ({"enabled": True}, {"enabled": False})
        client.post(address, {"to": "on"})
        row.refresh_from_db()
        assert row.enabled


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
        assert "Held messages: 1" in page
        assert ">1<" in client.get(reverse("systems")).text


class TestLimits:
    def test_a_limited_person_knows_of_their_systems_only(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=n) for n in ("mine", "other"))
        hidden = Endpoint.objects.create(name="secluded", system=other, handler_type="http")
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


class TestSecrets:
    def test_a_secret_is_stored_encrypted_kept_and_never_shown(self, client: Client) -> None:
        entered = {
            **forms()["provider"],
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "password": "s3cret-word",
            "client_key": "PEM-KEY",
        }
        client.post(reverse("provider-new"), entered)
        provider = Provider.objects.get()
        assert (provider.password, provider.client_key) == ("s3cret-word", "PEM-KEY")
        with connection.cursor() as cursor:
            cursor.execute("SELECT password, client_key FROM integration_provider")
            assert not {"s3cret-word", "PEM-KEY"} & set(cursor.fetchone())

        address = reverse("provider-change", args=[provider.pk])
        assert "A value is stored" in client.get(address).text
        for values, password in (
            ({"username": "other"}, "s3cret-word"),
            ({"password": "n3xt-word"}, "n3xt-word"),
            ({"remove_password": "on"}, ""),
        ):
            sent = {**as_entered(client, "provider", provider), **values}
            assert client.post(address, sent).status_code == 303
            provider.refresh_from_db()
            assert (provider.password, provider.client_key) == (password, "PEM-KEY")
        told = [
            change.after["password"] for change in ConfigurationChange.objects.order_by("id")[2:]
        ]
        assert told == ["set anew", "not set"][: len(told)]
        pages = [reverse("provider", args=[provider.pk]), address, reverse("changes")]
        pages.append(f"{reverse('provider-new')}?like={provider.pk}")
        for page in pages:
            assert not [
                w for w in ("s3cret-word", "n3xt-word", "PEM-KEY") if w in client.get(page).text
            ]
        stored = str(list(ConfigurationChange.objects.values()))
        assert not [w for w in ("s3cret-word", "n3xt-word", "PEM-KEY") if w in stored]

    def test_a_refused_form_does_not_show_the_secret_either(self, client: Client) -> None:
        entered = {**forms()["provider"], "name": "", "password": "s3cret-word"}
        answer = client.post(reverse("provider-new"), entered)
        assert answer.status_code == 422
        assert "s3cret-word" not in answer.text

    def test_a_password_replaced_meanwhile_is_noticed(self, client: Client) -> None:
        provider = a_row("provider")
        mine = as_entered(client, "provider", provider)
        address = reverse("provider-change", args=[provider.pk])
        theirs = client.post(address, {**mine, "password": "new-one"})
        assert theirs.status_code == 303
        assert client.post(address, {**mine, "username": "x"}).status_code == 409


class TestMistakes:
    @pytest.mark.parametrize(
        ("noun", "values", "told"),
        [
            ("provider", {"properties": '{"acks": "0"}'}, "Not allowed: acks"),
            ("provider", {"properties": "no json"}, "Enter a valid JSON"),
            ("provider", {"security_protocol": "SASL_SSL"}, "SASL_SSL needs a SASL mechanism"),
            ("structure", {"key_paths": "assetnum"}, "begins neither with $"),
            ("structure", {"json_schema": '{"type": 5}'}, "Not a JSON Schema"),
            ("endpoint", {"properties": "url = https://a.example\npassword = x"}, "like a secret"),
            ("endpoint", {"properties": "url = https://u:p@a.example"}, "not hold a user"),
            ("endpoint", {"properties": "method = POST"}, "url is missing"),
            ("endpoint", {"properties": "url"}, "not written as name = value"),
            ("endpoint", {"handler_type": "python", "properties": "function = x"}, "import path"),
            ("system", {"name": "with blanks"}, "letters, numbers, underscores or hyphens"),
        ],
    )
    def test_it_is_told_beside_the_field(
        self, client: Client, noun: str, values: dict[str, str], told: str
    ) -> None:
        answer = client.post(reverse(f"{noun}-new"), {**forms()[noun], **values})
        assert answer.status_code == 422
        assert any(told in str(e) for e in answer.context["form"].errors.values())
        assert not ConfigurationChange.objects.exists()


class TestStructureTryout:
    def test_paths_key_and_schema_are_shown_on_the_unsaved_form(self, client: Client) -> None:
        entered = {
            "key_paths": "$.assetnum\n$.siteid",
            "version_path": "$.rev",
            "json_schema": '{"properties": {"priority": {"type": "integer"}}}',
            "sample": '{"assetnum": "P-1", "siteid": 7, "rev": 3, "priority": "high"}',
        }
        answer = client.post(reverse("structure-try-new"), entered)
        shown = unescape(answer.text)
        assert answer.status_code == 200
        assert 'The key is <strong class="long">["P-1","7"]</strong>' in shown
        assert "$.priority: 'high' is not of type 'integer'" in shown
        assert "This field is required" not in shown
        assert not ObjectStructure.objects.exists()

    @pytest.mark.parametrize(
        ("paths", "sample", "told"),
        [
            ("/Asset/NUM", "<Asset><NUM>9</NUM></Asset>", "The key is"),
            ("$.nothing", '{"a": 1}', "finds nothing that can be a key"),
            ("$.a", '{"a": 1', "JSON"),
            ("nonsense", '{"a": 1}', "begins neither with"),
            ("$.a", '{"a": "' + "x" * 300_000 + '"}', "longer than 256 KiB"),
            ("$.a", "", "sample"),
        ],
    )
    def test_every_sample_is_answered_in_a_sentence(
        self, client: Client, paths: str, sample: str, told: str
    ) -> None:
        structure = a_row("structure")
        address = reverse("structure-try", args=[structure.pk])
        answer = client.post(address, {"key_paths": paths, "sample": sample})
        assert answer.status_code == 200
        assert told in unescape(answer.text)


class TestService:
    def test_the_effect_is_told_for_structure_handler_and_nobody(self, client: Client) -> None:
        structure = a_row("structure")
        service = EnterpriseService.objects.create(interface="MXA", structure=structure)
        card = reverse("service", args=[service.pk])
        told = f"Messages whose INTERFACE is MXA are stored into the structure {structure.name}"
        assert told in client.get(card).text
        service.structure = None
        service.save()
        assert "no handler of that name is installed" in client.get(card).text
        form = client.get(f"{reverse('service-new')}?interface=OBEY.ALONE")
        assert "OBEY.ALONE are given to tests.support.world.handlers" in form.text


class TestChanges:
    def test_filters_pages_and_permalinks(self, client: Client) -> None:
        for number in range(60):
            client.post(reverse("system-new"), {"name": f"s{number}", "enabled": "on"})
        client.post(reverse("service-new"), {"interface": "ONLY", "enabled": "on"})
        first = client.get(reverse("changes"))
        assert "s59" in first.text
        assert "s9<" not in first.text
        place = first.text.split("at=", 1)[1].split('"')[0]
        assert "s9<" in client.get(f"{reverse('changes')}?at={place}").text
        by_kind = client.get(f"{reverse('changes')}?kind=enterpriseservice")
        assert "ONLY" in by_kind.text
        assert "s59" not in by_kind.text
        assert "Nothing matches" in client.get(f"{reverse('changes')}?name=nobody").text
        assert "left out" in client.get(f"{reverse('changes')}?since=yesterday").text
        change = ConfigurationChange.objects.get(name="ONLY")
        assert "ONLY" in client.get(reverse("change", args=[change.pk])).text

    @pytest.mark.parametrize("at", ["", "x", "2026-01-01~1", "2026-13-01T00:00:00Z~1", "~9"])
    def test_a_spoilt_place_begins_at_the_newest(self, client: Client, at: str) -> None:
        assert client.get(reverse("changes"), {"at": at}).status_code == 200


class TestConnection:
    def test_a_stored_provider_is_tested_on_its_page(self, client: Client, kafka: Server) -> None:
        provider = Provider.objects.create(name="real", bootstrap_servers=kafka.bootstrap)
        a_queue_row(provider=provider, topic="nobodys")
        answer = client.post(reverse("provider-test", args=[provider.pk]), {"topic": "typed"})
        shown = unescape(answer.text)
        for words in ("Log in as User:ANONYMOUS", "Topic nobodys", "Topic typed", "kafka-acls.sh"):
            assert words in shown
        assert not ConfigurationChange.objects.exists()

    def test_values_are_tested_before_they_are_saved(self, client: Client) -> None:
        answer = client.post(
            reverse("provider-test-new"),
            {"bootstrap_servers": "127.0.0.1:1", "security_protocol": "PLAINTEXT", "topic": "t"},
        )
        assert answer.status_code == 200
        assert "nothing listens on this port" in answer.text
        assert "This field is required" not in answer.text
        assert not Provider.objects.exists()

    def test_what_cannot_be_tested_is_told(self, client: Client) -> None:
        answer = client.post(reverse("provider-test-new"), {"security_protocol": "SASL_SSL"})
        assert "Bootstrap servers: This field is required" in answer.text

    def test_a_stored_secret_goes_nowhere_else(self, client: Client) -> None:
        provider = a_row("provider")
        provider.password = "s3cret-word"
        provider.save()
        entered = as_entered(client, "provider", provider)
        address = reverse("provider-test", args=[provider.pk])
        same = client.post(address, entered)
        assert "nothing listens on this port" in same.text
        other = client.post(address, {**entered, "bootstrap_servers": "127.0.0.1:2"})
        assert "Enter it again to test other addresses" in other.text
        assert "nothing listens" not in other.text

    def test_who_is_limited_may_not_ask_about_all_queues(self) -> None:
        provider = a_row("provider")
        client = limited_to(ExternalSystem.objects.create(name="mine"))
        address = reverse("provider-test", args=[provider.pk])
        assert client.post(address).status_code == 403
