"""What single nouns of the set-up do besides: secrets, tests of a connection, samples, audit."""

from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.setup.providers import ENTER_AGAIN
from devstack.server import Server
from integration.models import (
    ConfigurationChange,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
)
from tests.support.rows import a_held, a_queue_row
from tests.support.set_up import a_row, as_entered, forms, limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


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
        assert client.post(address, {**mine, "shards": "2"}).status_code == 409


class TestShards:
    def test_their_number_is_set_and_each_one_is_shown(self, client: Client) -> None:
        provider = a_row("provider")
        address = reverse("provider-change", args=[provider.pk])
        entered = as_entered(client, "provider", provider)
        for wrong in ("0", "17"):
            assert client.post(address, {**entered, "shards": wrong}).status_code == 422
        assert "Shards of the relay" not in client.get(reverse("overview")).text
        assert client.post(address, {**entered, "shards": "3"}).status_code == 303
        shown = client.get(reverse("provider", args=[provider.pk])).text
        assert shown.count("Nobody serves it") == 3

    def test_who_is_limited_does_not_see_what_waits_for_all(self) -> None:
        provider = a_row("provider")
        person = limited_to(ExternalSystem.objects.create(name="eam"))
        page = person.get(reverse("provider", args=[provider.pk]))
        assert "Nobody serves it" not in page.text


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
        assert "$.priority: " in shown
        assert "invalid-feedback" not in shown
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
        service.interface = "obey.alon"
        service.save()
        assert "Did you mean OBEY.ALONE?" in client.get(card).text
        form = client.get(f"{reverse('service-new')}?interface=OBEY.ALONE")
        assert "OBEY.ALONE are given to tests.support.world.handlers" in form.text

    def test_one_that_nobody_takes_is_switched_on_after_asking_back(self, client: Client) -> None:
        service = EnterpriseService.objects.create(interface="MXNONE", enabled=False)
        switch = reverse("service-switch", args=[service.pk])
        card = reverse("service", args=[service.pk])
        assert "stops every partition at its next message" in client.get(card).text
        asked = client.post(switch, {"to": "on"}, follow=True)
        service.refresh_from_db()
        assert not service.enabled
        assert "MXNONE is still off" in asked.text
        client.post(switch, {"to": "on", "sure": "1"})
        service.refresh_from_db()
        assert service.enabled

    @pytest.mark.parametrize("is_on", [True, False])
    def test_a_change_of_its_paths_switches_nothing(self, client: Client, is_on: bool) -> None:
        service = EnterpriseService.objects.create(interface="MXNONE", enabled=is_on)
        change = reverse("service-change", args=[service.pk])
        page = client.get(change)
        assert 'name="enabled"' not in page.text
        for switched in ({}, {"enabled": "on"}):
            service.refresh_from_db()
            entered = {"interface": "MXNONE", "external_id_path": f"$.n{len(switched)}"}
            seen = client.get(change).context["seen"]
            answer = client.post(change, {**entered, **switched, "seen": seen})
            assert answer.status_code == 303
        service.refresh_from_db()
        assert (service.enabled, service.external_id_path) == (is_on, "$.n1")

    def test_one_that_others_alone_have_as_their_own_is_theirs(self) -> None:
        mine, others = a_row("system"), ExternalSystem.objects.create(name="others")
        names = {"MXMINE": mine, "MXOTHERS": others, "MXBOTH": others, "MXFAILED": others}
        made = {}
        for name, system in {**names, "MXSHARED": None}.items():
            made[name] = EnterpriseService.objects.create(interface=name)
            if system is not None:
                a_queue_row("continuous", system=system, default_service=made[name])
        own = a_queue_row("continuous", system=mine, default_service=made["MXBOTH"])
        a_held(own, interface="MXFAILED")
        limited = limited_to(mine)
        listed = limited.get(reverse("services")).text
        form = limited.get(reverse("queue-new")).text
        token = limited.get(reverse("token-new", args=[mine.pk])).text
        message = limited.get(reverse("test-message", args=[own.name])).text
        for page in (listed, form, token, message):
            assert "MXOTHERS" not in page
            for name in ("MXMINE", "MXBOTH", "MXFAILED", "MXSHARED"):
                assert name in page
        known = limited.get(reverse("service", args=[made["MXMINE"].pk]))
        hidden = limited.get(reverse("service", args=[made["MXOTHERS"].pk]))
        assert (known.status_code, hidden.status_code) == (200, 404)
        assert "MXOTHERS" in logged_in(name="adam").get(reverse("services")).text

    def test_a_structure_asks_nothing_back_and_says_which_is_the_newer(
        self, client: Client
    ) -> None:
        structure = a_row("structure")
        structure.version_path = "$.changed"
        structure.save()
        service = EnterpriseService.objects.create(
            interface="MXB", structure=structure, enabled=False
        )
        page = client.get(reverse("service", args=[service.pk])).text
        assert "stops every partition" not in page
        assert "the newest by $.changed, then by arrival." in page
        client.post(reverse("service-switch", args=[service.pk]), {"to": "on"})
        service.refresh_from_db()
        assert service.enabled


class TestRetriesOfAService:
    def test_they_are_set_shown_and_refused_without_a_pause(self, client: Client) -> None:
        service = a_row("service")
        assert service.retry_rule() is None
        address = reverse("service-change", args=[service.pk])
        given = as_entered(client, "service", service) | {"backoff": "list", "max_retries": "2"}
        answer = client.post(address, given)
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == ["retry_delays_seconds"]
        given |= {"retry_delays_seconds": "10 s, 1 min", "retry_delay_seconds": ""}
        assert client.post(address, given).status_code == 303
        service.refresh_from_db()
        rule = service.retry_rule()
        assert (rule.max_retries, [one.total_seconds() for one in rule.delays]) == (2, [10, 60])
        page = client.get(reverse("service", args=[service.pk])).text
        assert "Its own: 2 retries: after 10 s, 1 min; given up after 1 min 10 s." in page


class TestChanges:
    def test_filters_pages_and_permalinks(self, client: Client) -> None:
        for number in range(60):
            client.post(reverse("system-new"), {"name": f"s{number}", "enabled": "on"})
        client.post(reverse("service-new"), {"interface": "ONLY", "enabled": "on"})
        first = client.get(reverse("changes"))
        assert "s59<" in first.text
        assert "s9<" not in first.text
        place = first.text.split("at=", 1)[1].split('"')[0]
        assert "s9<" in client.get(f"{reverse('changes')}?at={place}").text
        by_kind = client.get(f"{reverse('changes')}?kind=enterpriseservice")
        assert "ONLY" in by_kind.text
        assert "s59<" not in by_kind.text
        assert "Nothing matches" in client.get(f"{reverse('changes')}?name=nobody").text
        odd = client.get(f"{reverse('changes')}?since=yesterday")
        assert list(odd.context["form"].errors) == ["since"]
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
        for words in (
            "Log in as User:ANONYMOUS",
            "Topic nobodys",
            "Topic typed",
            "does not exist yet",
        ):
            assert words in shown
        assert not ConfigurationChange.objects.exists()

    def test_values_are_tested_before_they_are_saved(self, client: Client) -> None:
        answer = client.post(
            reverse("provider-test-new"),
            {"bootstrap_servers": "127.0.0.1:1", "security_protocol": "PLAINTEXT", "topic": "t"},
        )
        assert answer.status_code == 200
        assert answer.context["tested"].verdict == "refused"
        assert not answer.context["mistakes"]
        assert not Provider.objects.exists()

    def test_what_cannot_be_tested_is_told(self, client: Client) -> None:
        answer = client.post(reverse("provider-test-new"), {"security_protocol": "SASL_SSL"})
        assert answer.context["tested"] is None
        assert any(told.startswith("Servers: ") for told in answer.context["mistakes"])

    def test_a_stored_secret_goes_nowhere_else(self, client: Client) -> None:
        provider = a_row("provider")
        provider.password = "s3cret-word"
        provider.save()
        entered = as_entered(client, "provider", provider)
        address = reverse("provider-test", args=[provider.pk])
        same = client.post(address, entered)
        assert same.context["tested"] is not None
        other = client.post(address, {**entered, "bootstrap_servers": "127.0.0.1:2"})
        assert any(ENTER_AGAIN in told for told in other.context["mistakes"])
        assert other.context["tested"] is None
        # How producers pack says nothing of where it goes.
        packed = client.post(address, {**entered, "properties": '{"linger.ms": 20}'})
        assert packed.context["tested"] is not None
        # A token endpoint among the properties is an address that gets the secret too.
        properties = '{"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:2/"}'
        other = client.post(address, {**entered, "properties": properties})
        assert any(ENTER_AGAIN in told for told in other.context["mistakes"])
        assert other.context["tested"] is None

    def test_what_would_weaken_delivery_is_refused_with_the_reason(self, client: Client) -> None:
        provider = a_row("provider")
        address = reverse("provider-change", args=[provider.pk])
        entered = as_entered(client, "provider", provider)
        answer = client.post(address, {**entered, "properties": '{"acks": 1, "linger.ms": -1}'})
        assert answer.status_code == 422
        (acks, linger) = answer.context["form"].errors["properties"]
        assert "acks cannot be set: a message counts as sent only once" in acks
        assert "linger.ms has to be 0 to 5000 ms" in linger
        assert b"transaction.timeout.ms" in answer.content, "what may be set is listed"
        wanted = {**entered, "properties": '{"linger.ms": 20, "compression.type": "zstd"}'}
        assert client.post(address, wanted).status_code == 303
        provider.refresh_from_db()
        assert provider.properties == {"linger.ms": 20, "compression.type": "zstd"}

    def test_a_stored_secret_is_not_saved_for_another_address_either(self, client: Client) -> None:
        provider = a_row("provider")
        provider.password = "s3cret-word"
        provider.save()
        entered = as_entered(client, "provider", provider)
        address = reverse("provider-change", args=[provider.pk])
        moved = {**entered, "bootstrap_servers": "127.0.0.1:2"}
        answer = client.post(address, moved)
        assert answer.status_code == 422
        assert answer.context["form"].errors["password"] == [ENTER_AGAIN]
        assert client.post(address, {**moved, "password": "new-word"}).status_code == 303
        provider.refresh_from_db()
        assert (provider.bootstrap_servers, provider.password) == ("127.0.0.1:2", "new-word")

    def test_who_is_limited_may_not_ask_about_all_queues(self) -> None:
        provider = a_row("provider")
        client = limited_to(ExternalSystem.objects.create(name="mine"))
        address = reverse("provider-test", args=[provider.pk])
        assert client.post(address).status_code == 403


@pytest.mark.parametrize("part", ["\\u0000", "\\ud800"])
def test_a_schema_that_the_database_cannot_hold_is_refused_by_its_field(
    client: Client, part: str
) -> None:
    """Generated ones have patterns such as [^\\u0000]; as the pattern's own escape it is stored."""
    entered = {**forms()["structure"], "json_schema": '{"pattern": "^[^' + part + ']*$"}'}
    answer = client.post(reverse("structure-new"), entered)
    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"json_schema"}
    names = {**entered, "json_schema": '{"properties": {"' + part + '": {}}}'}
    assert client.post(reverse("structure-new"), names).status_code == 422
    escaped = {**entered, "json_schema": '{"pattern": "^[^\\\\u0000]*$"}'}
    assert client.post(reverse("structure-new"), escaped).status_code == 303
    assert ObjectStructure.objects.get().json_schema == {"pattern": "^[^\\u0000]*$"}
