"""Channels and their targets in the console: who sees which, what fits, and test messages."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.exceptions import NON_FIELD_ERRORS
from django.test import Client
from django.urls import reverse

from console.setup.channels import NOBODY
from integration import envelope
from integration.codec import decode_headers
from integration.models import (
    ChannelTarget,
    ConfigurationChange,
    Endpoint,
    ExternalSystem,
    ObjectStructure,
    OutboxRow,
    PublishChannel,
    Queue,
    QueuePartition,
)
from tests.support.channels import a_channel, a_target, an_outbound
from tests.support.rows import a_queue_row
from tests.support.set_up import forms, limited_to, logged_in
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


def a_system(name: str) -> ExternalSystem:
    return ExternalSystem.objects.get_or_create(name=name)[0]


def an_endpoint(name: str, system: str) -> Endpoint:
    return Endpoint.objects.create(name=name, system=a_system(system), endpoint_type="file")


class TestTargets:
    def test_a_target_is_added_to_a_channel_with_its_audit(self, client: Client) -> None:
        channel = a_channel("MXPO")
        queue = an_outbound("erp-out", a_system("erp"))
        QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=0)
        endpoint = an_endpoint("erp-http", "erp")
        entered = {
            "channel": channel.pk,
            "system": a_system("erp").pk,
            "enabled": "on",
            "queue": queue.pk,
            "endpoint": endpoint.pk,
            "reason": "goes live",
        }
        answer = client.post(reverse("target-new"), entered)
        assert answer.status_code == 303, unescape(answer.text)
        target = ChannelTarget.objects.get()
        assert (target.channel, target.queue, target.endpoint) == (channel, queue, endpoint)
        change = ConfigurationChange.objects.get()
        assert (change.kind, change.name, change.system) == (
            "channeltarget",
            "MXPO to erp",
            a_system("erp"),
        )
        assert change.after["queue"] == "erp-out"
        card = client.get(reverse("channel", args=[channel.pk])).text
        assert "From erp-out they are delivered to erp-http." in card
        twice = client.post(reverse("target-new"), entered)
        assert twice.status_code == 422
        assert twice.context["form"].has_error(NON_FIELD_ERRORS, "unique_together")

    def test_only_what_fits_the_system_is_offered(self, client: Client) -> None:
        a_queue_row("continuous", name="inbound")
        for system in ("erp", "wms"):
            an_outbound(f"{system}-out", a_system(system))
            an_endpoint(f"{system}-file", system)
        an_outbound("shared")
        new = reverse("target-new")
        every = client.get(new).context["form"]
        assert offered(every, "queue") == {"erp-out", "wms-out", "shared"}
        fitting = client.get(f"{new}?system={a_system('erp').pk}").context["form"]
        assert offered(fitting, "queue") == {"erp-out", "shared"}
        assert offered(fitting, "endpoint") == {"erp-file"}

    def test_another_systems_queue_is_refused(self, client: Client) -> None:
        channel = a_channel("MXPO")
        theirs = an_outbound("wms-out", a_system("wms"))
        sent = {"channel": channel.pk, "system": a_system("erp").pk, "queue": theirs.pk}
        answer = client.post(reverse("target-new"), sent)
        assert answer.status_code == 422
        assert not ChannelTarget.objects.exists()

    def test_what_is_delivered_never_goes_to_another_partner(self, client: Client) -> None:
        """A delivery knows its channel and its queue, and so exactly one target."""
        channel = a_channel("MXPO", "erp")
        shared = an_outbound("shared")
        a_target(channel, "wms", queue=shared)
        sent = {"channel": channel.pk, "system": a_system("tms").pk, "queue": shared.pk}
        both_read = client.post(reverse("target-new"), sent)
        assert both_read.status_code == 303
        ChannelTarget.objects.filter(system__name="tms").delete()

        endpoint = an_endpoint("tms-file", "tms")
        one_delivered = client.post(reverse("target-new"), {**sent, "endpoint": endpoint.pk})
        assert list(one_delivered.context["form"].errors) == ["queue"]
        theirs = an_endpoint("wms-file", "wms")
        Queue.objects.filter(pk=shared.pk).update(endpoint=theirs)
        to_theirs = client.post(reverse("target-new"), sent)
        assert "wms-file" in to_theirs.context["form"].errors["queue"][0]
        assert not ChannelTarget.objects.filter(system__name="tms").exists()

    def test_channel_and_system_of_a_target_stay(self, client: Client) -> None:
        channel = a_channel("MXPO", "erp")
        target = channel.targets.get()
        address = reverse("target-change", args=[target.pk])
        seen = client.get(address).context["seen"]
        other = a_channel("MXPR")
        sent = {"channel": other.pk, "system": a_system("wms").pk, "queue": target.queue_id}
        assert client.post(address, {**sent, "seen": seen}).status_code == 303
        target.refresh_from_db()
        assert (str(target), target.enabled) == ("MXPO to erp", False)

    def test_a_clone_begins_with_everything(self, client: Client) -> None:
        target = a_channel("MXPO", "erp").targets.get()
        form = client.get(f"{reverse('target-new')}?like={target.pk}").context["form"]
        assert form["queue"].value() == target.queue_id

    def test_switching_a_target_off_tells_what_it_stops(self, client: Client) -> None:
        target = a_channel("MXPO", "erp").targets.get()
        card = unescape(client.get(reverse("target", args=[target.pk])).text)
        assert "each message of MXPO to erp that is published from then on" in card
        client.post(reverse("target-switch", args=[target.pk]), {"to": "off"})
        target.refresh_from_db()
        assert not target.enabled
        assert (
            "those published while it was off are not"
            in client.get(reverse("target", args=[target.pk])).text
        )

    def test_what_has_targets_is_deleted_after_them(self, client: Client) -> None:
        channel = a_channel("MXPO", "erp")
        for noun, number in (("channel", channel.pk), ("system", a_system("erp").pk)):
            page = client.get(reverse(f"{noun}-delete", args=[number])).text
            assert "MXPO to erp" in page
            answer = client.post(
                reverse(f"{noun}-delete", args=[number]), {"name": "MXPO", "reason": "gone"}
            )
            assert answer.status_code in {409, 422}
        assert PublishChannel.objects.exists()


class TestScope:
    def test_people_see_the_targets_of_their_systems_only(self) -> None:
        channel = a_channel("MXPO", "erp", "secret-partner")
        limited = limited_to(a_system("erp"))
        card = limited.get(reverse("channel", args=[channel.pk])).text
        assert "erp-out" in card
        assert "And 1 of external systems" in card
        theirs = channel.targets.get(system__name="secret-partner")
        pages = ("targets", "channels", "channel-delete", "channel-test")
        for name in pages:
            at = reverse(name, args=[channel.pk] if name.startswith("channel-") else [])
            assert "secret-partner" not in limited.get(at).text
        for name in ("target", "target-change", "target-delete"):
            assert limited.get(reverse(name, args=[theirs.pk])).status_code == 404
        assert limited.post(reverse("target-switch", args=[theirs.pk])).status_code == 404
        mine = channel.targets.get(system__name="erp")
        form = limited.get(reverse("target-change", args=[mine.pk])).context["form"]
        assert offered(form, "queue") == {"erp-out"}
        assert offered(form, "system") == {"erp"}

    def test_only_people_whom_nothing_limits_let_a_partner_listen_to_a_channel(self) -> None:
        channel, other = a_channel("MXPO", "secret-partner"), a_channel("MXINV", "erp")
        limited = limited_to(a_system("erp"))
        queue = other.targets.get().queue
        sent = {"channel": channel.pk, "system": a_system("erp").pk, "queue": queue.pk}
        assert limited.post(reverse("target-new"), sent).status_code == 403
        assert channel.targets.count() == 1

    def test_a_channel_is_changed_by_people_whom_nothing_limits(self) -> None:
        channel = a_channel("MXPO", "erp")
        limited = limited_to(a_system("erp"))
        sent = {**forms()["channel"], "name": "renamed"}
        address = reverse("channel-change", args=[channel.pk])
        assert limited.post(address, sent).status_code == 403
        channel.refresh_from_db()
        assert channel.name == "MXPO"


class TestForm:
    @pytest.mark.parametrize(
        ("entered", "field"),
        [
            ({"key_path": "/PO/PONUM"}, "key_path"),
            ({"key_path": "ponum"}, "key_path"),
            ({"format": "xml"}, "key_path"),
            ({"search_paths": "$.a\n$.b\n$.c"}, "search_paths"),
            ({"external_id_path": "extref"}, "external_id_path"),
        ],
    )
    def test_paths_that_find_nothing_are_refused(
        self, client: Client, entered: dict[str, Any], field: str
    ) -> None:
        answer = client.post(reverse("channel-new"), {**forms()["channel"], **entered})
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == [field]

    def test_a_structure_has_to_fit_the_format(self, client: Client) -> None:
        schema = ObjectStructure.objects.create(name="s", key_paths=["$.a"], json_schema={})
        xpath = ObjectStructure.objects.create(name="x", key_paths=["/a"])
        for chosen, form in ((schema, "xml"), (xpath, "json")):
            sent = {"name": "MX", "format": form, "structure": chosen.pk}
            answer = client.post(reverse("channel-new"), sent)
            assert list(answer.context["form"].errors) == ["structure"], form

    def test_each_field_tells_its_effect(self, client: Client) -> None:
        ObjectStructure.objects.create(name="po", key_paths=["$.ponum"], json_schema={})
        number = ObjectStructure.objects.get().pk
        page = unescape(client.get(f"{reverse('channel-new')}?structure={number}").text)
        assert "The JSON Schema of po refuses payloads that do not fit" in page
        assert "Otherwise $.ponum of po find it" in page


class TestMessages:
    def test_it_goes_to_every_target_and_is_followed(self, client: Client) -> None:
        channel = a_channel("MXPO", "erp", "wms", key_path="$.ponum")
        address = reverse("channel-test", args=[channel.pk])
        assert '"test": true' in unescape(client.get(address).text)
        sent = {"payload": '{"ponum": "PO-4711"}', "reason": "new partner"}
        answer = client.post(address, sent, follow=True)
        assert "Published: 2 messages" in answer.text
        rows = list(OutboxRow.objects.order_by("id"))
        assert [row.topic for row in rows] == ["erp-out", "wms-out"]
        assert {bytes(row.key or b"") for row in rows} == {b"PO-4711"}
        for row in rows:
            assert dict(decode_headers(row.headers))["sluice-test"] == b"1"
            assert reverse("outbox-row", args=[row.pk]) in answer.text
            journey = reverse("test-message-outcome", args=[row.topic, row.message_id])
            assert journey in answer.text
            assert client.get(journey).status_code == 200
        changes = ConfigurationChange.objects.filter(kind="testmessage").order_by("id")
        assert [(change.name, change.reason) for change in changes] == [
            ("erp-out", "new partner"),
            ("wms-out", "new partner"),
        ]
        assert "PO-4711" not in str([change.after for change in changes])

    def test_the_list_tells_that_one_was_delivered(self, client: Client) -> None:
        channel = a_channel("MXPO", "erp")
        address = reverse("channel-test", args=[channel.pk])
        assert "Delivered" not in client.post(address, {"payload": "{}"}, follow=True).text
        row = OutboxRow.objects.get()
        queue = Queue.objects.get(name="erp-out")
        for ended in ("RETRY", "DELIVERED"):
            a_track_row(queue, ago=timedelta(), message_id=row.message_id, ended=ended)
        page = client.get(address).text
        assert "Delivered" in page
        assert "tried again" not in page
        assert f"{reverse('tracked-message')}?id={row.message_id}" in page

    def test_what_is_refused_says_why_and_sends_nothing(self, client: Client) -> None:
        channel = a_channel("MXPO", "erp", key_path="$.ponum")
        answer = client.post(reverse("channel-test", args=[channel.pk]), {"payload": "{}"})
        assert answer.status_code == 422
        assert "(NO_KEY)" in answer.text
        assert not OutboxRow.objects.exists()
        assert not ConfigurationChange.objects.exists()

    def test_a_placeholder_is_refused(self, client: Client) -> None:
        channel = a_channel("MXPO", "erp")
        form = {"payload": '{"card": "\\u27e6masked 1\\u27e7"}'}
        answer = client.post(reverse("channel-test", args=[channel.pk]), form)
        assert answer.status_code == 422
        assert "stands for a hidden value" in answer.text
        assert not OutboxRow.objects.exists()

    def test_a_channel_without_targets_says_so(self, client: Client) -> None:
        channel = a_channel("MXPO")
        answer = client.post(reverse("channel-test", args=[channel.pk]), {"payload": "{}"})
        assert answer.status_code == 422
        assert answer.context["form"].non_field_errors() == [NOBODY]

    def test_nobody_sends_to_partners_they_may_not_know_of(self) -> None:
        channel = a_channel("MXPO", "erp", "secret-partner")
        limited = limited_to(a_system("erp"))
        address = reverse("channel-test", args=[channel.pk])
        assert limited.post(address, {"payload": "{}"}).status_code == 403
        assert not OutboxRow.objects.exists()
        channel.targets.filter(system__name="secret-partner").update(enabled=False)
        assert limited.post(address, {"payload": "{}"}).status_code == 303
        assert OutboxRow.objects.count() == 1

    def test_an_xml_channel_begins_with_xml(self, client: Client) -> None:
        channel = a_channel("MXPO", format="xml")
        a_target(channel, "erp", kind=Queue.Kind.SEQUENTIAL)
        address = reverse("channel-test", args=[channel.pk])
        payload = client.get(address).context["form"]["payload"].value()
        assert client.post(address, {"payload": payload}).status_code == 303
        sent = envelope.read(bytes(OutboxRow.objects.get().value or b""))
        assert isinstance(sent, envelope.Document)
        assert sent.mimetype == "application/xml"


def offered(form: Any, field: str) -> set[str]:
    return {row.name for row in form.fields[field].queryset}
