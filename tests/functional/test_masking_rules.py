"""Masking rules as people set them up: the form, the sample, the configuration file."""

from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from crontasks.configfile import applying, facts
from integration.actions.configuration import Author
from integration.models import ConfigurationChange, EnterpriseService, MaskingRule
from tests.functional.test_masking_planted import somebody
from tests.support.http_api import problem
from tests.support.operator_api import a_program
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECRET = "4000123412341234"
FIELDS = {"name": "cards", "part": "payload", "style": "last-four", "enabled": "on"}


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_a_rule_is_tried_on_a_sample_and_stored_with_its_audit(client: Client) -> None:
    sample = f'{{"lines": [{{"card": "{SECRET}"}}]}}'
    form = {**FIELDS, "path": "$.lines[*].card", "sample": sample}
    tried = unescape(client.post(reverse("masking-rule-try-new"), form).text)
    shown = tried.partition('id="beside"')[2]
    assert "⟦masked 1: …1234⟧" in shown
    assert SECRET not in shown
    assert not MaskingRule.objects.exists()
    client.post(reverse("masking-rule-new"), form)
    rule = MaskingRule.objects.get()
    change = ConfigurationChange.objects.get(kind="maskingrule", subject=str(rule.pk))
    assert change.actor == "root"
    assert SECRET not in str(change.after), "a sample is kept nowhere"


@pytest.mark.parametrize("missing", ["style", "part"])
def test_what_says_how_a_value_is_hidden_is_needed_to_try_it(client: Client, missing: str) -> None:
    form = {**FIELDS, "path": "$.card", "sample": f'{{"card": "{SECRET}"}}'}
    del form[missing]
    answer = client.post(reverse("masking-rule-try-new"), form)
    assert list(answer.context["form"].errors) == [missing]
    assert "This field is required." in answer.text
    assert answer.context["tried"] is None


@pytest.mark.parametrize("path", ["$.lines[0].card", "$.a[?@.b==1].c", "/A[1]/b", "card", ""])
def test_a_path_that_depends_on_the_document_is_refused(client: Client, path: str) -> None:
    answer = client.post(reverse("masking-rule-new"), {**FIELDS, "path": path})
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["path"]


def test_a_rule_for_the_key_has_no_path(client: Client) -> None:
    client.post(reverse("masking-rule-new"), {**FIELDS, "part": "key", "path": "$.typed.before"})
    assert MaskingRule.objects.get().path == ""


def test_what_a_rule_is_limited_to_is_not_deleted_under_it(client: Client) -> None:
    service = EnterpriseService.objects.create(interface="ORDERS")
    queue = a_queue_row(enabled=False)
    MaskingRule.objects.create(name="cards", path="$.card", service=service, queue=queue)
    page = client.get(reverse("service-delete", args=[service.pk])).text
    assert "cards" in page
    answer = client.post(reverse("service-delete", args=[service.pk]), {"reason": "x"})
    assert answer.status_code == 409
    assert (
        "Masking rules are limited to it"
        in client.get(reverse("queue-delete", args=[queue.name])).text
    )


def test_who_may_not_reveal_changes_no_rule() -> None:
    rule = MaskingRule.objects.create(name="cards", path="$.card")
    client = somebody(Right.REVEAL)
    for name in ("masking-rule-change", "masking-rule-delete"):
        answer = client.post(reverse(name, args=[rule.pk]), {**FIELDS, "path": "$.other"})
        assert answer.status_code == 403
    rule.refresh_from_db()
    assert rule.path == "$.card"


def test_the_configuration_file_has_the_rules() -> None:
    queue = a_queue_row()
    MaskingRule.objects.create(name="cards", path="$.card", queue=queue, style="last-four")
    file = facts.export().encode()
    MaskingRule.objects.all().delete()
    steps = applying.apply(file, lookup=lambda _: "", author=Author("otto"))
    assert [(step.action, step.name) for step in steps] == [("create", "cards")]
    rule = MaskingRule.objects.get()
    assert (rule.path, rule.queue, rule.style) == ("$.card", queue, "last-four")


def test_a_program_adds_rules_and_unmasks_nothing() -> None:
    MaskingRule.objects.create(name="cards", path="$.card")
    program, head = a_program(), b"format: 1\nmasking_rules:\n"
    added = program.put("/configuration", head + b"- name: names\n  path: $.name\n")
    assert added.status_code == 200, added.content
    off = head + b"- name: cards\n  path: $.card\n  enabled: false\n"
    problem(program.put("/configuration", off), 403, "RIGHT_MISSING")
    none = head + b"- name: names\n  path: $.name\n"
    problem(program.put("/configuration?prune=true", none), 403, "RIGHT_MISSING")
    assert set(MaskingRule.objects.filter(enabled=True).values_list("name", flat=True)) == {
        "cards",
        "names",
    }
    service = b"format: 1\nservices:\n- interface: ORDERS\n"
    plain = program.put("/configuration", service)
    assert plain.status_code == 200, plain.content
    MaskingRule.objects.update(service=EnterpriseService.objects.get())
    another = service.replace(b"ORDERS", b"INVOICES")
    problem(program.put("/configuration", another), 403, "RIGHT_MISSING")
