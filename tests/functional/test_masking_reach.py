"""What rules reach is taken from them by who may reveal: forms, files and the wizard ask for it."""

import pytest
from django.urls import reverse

from console.layout.access import Right
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    MaskingRule,
    ObjectStructure,
    PublishChannel,
)
from integration.selectors.masking.limits import step_unmasks, storing_unmasks
from tests.functional.test_masking import SECRET, a_failure, a_rule, page_of
from tests.functional.test_masking_planted import somebody
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def test_a_row_leaves_a_rule_s_reach_by_who_may_reveal() -> None:
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    queue = a_queue_row(system=ExternalSystem.objects.create(name="EAM"))
    service.structure, queue.system = None, None
    assert not storing_unmasks(service)
    a_rule(structure=structure)
    assert storing_unmasks(service)
    assert not storing_unmasks(queue)
    a_rule(system=ExternalSystem.objects.get())
    assert storing_unmasks(queue)
    MaskingRule.objects.update(enabled=False)
    assert not storing_unmasks(service)


def test_forms_and_files_ask_for_the_right() -> None:
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    a_rule(structure=structure)
    client = somebody(Right.REVEAL)
    address = reverse("service-change", args=[service.pk])
    form = client.get(address).context["form"]
    said = {name: form[name].value() for name in form.fields}
    said = {name: value for name, value in said.items() if value not in {None, False}}
    answer = client.post(address, {**said, "structure": ""})
    assert answer.status_code == 403, answer.text
    service.refresh_from_db()
    assert service.structure == structure
    word = str(EnterpriseService._meta.verbose_name)
    assert step_unmasks("change", word, "ORDERS", {"structure": "order"})
    assert not step_unmasks("change", word, "ORDERS", {"enabled": True})


def test_nor_is_a_name_taken_that_messages_may_have() -> None:
    """While nobody knows their service, every rule for a service hides what they hold.

    So it is with failures, with tracked messages, and with those in the outbox.
    """
    new = EnterpriseService(interface="ORDERS")
    word = str(EnterpriseService._meta.verbose_name)
    assert not storing_unmasks(new)
    assert not step_unmasks("create", word, "ORDERS", {})
    a_rule(service=EnterpriseService.objects.create(interface="OTHER"))
    assert storing_unmasks(new)
    assert step_unmasks("create", word, "ORDERS", {})
    assert storing_unmasks(PublishChannel(name="ORDERS"))
    renamed = EnterpriseService.objects.create(interface="HARMLESS")
    renamed.interface = "ORDERS"
    assert storing_unmasks(renamed)
    renamed.interface = "HARMLESS"
    assert not storing_unmasks(renamed)
    assert not storing_unmasks(PublishChannel(name="HARMLESS")), "its messages are known"
    assert not step_unmasks("create", str(ObjectStructure._meta.verbose_name), "ORDERS", {})


@pytest.mark.parametrize("limit", ["structure", "service"])
def test_a_name_is_given_up_by_who_may_reveal(limit: str) -> None:
    """Under the old name another row, which no rule is for, would show what is hidden."""
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    word = str(EnterpriseService._meta.verbose_name)
    service.interface = "RENAMED"
    assert not storing_unmasks(service)
    assert not step_unmasks("remove", word, "ORDERS", {})
    a_rule(**{limit: {"structure": structure, "service": service}[limit]})
    assert storing_unmasks(service)
    assert step_unmasks("remove", word, "ORDERS", {})
    assert not step_unmasks("create", word, "ORDERS", {})
    address, client = reverse("service-delete", args=[service.pk]), somebody(Right.REVEAL)
    said = {"reason": "to add it again", "name": "ORDERS"}
    assert client.post(address, said).status_code == 403
    assert EnterpriseService.objects.filter(interface="ORDERS").exists()


def test_the_wizard_gives_a_structure_to_a_service_that_has_none() -> None:
    one, other = (
        ObjectStructure.objects.create(name=name, key_paths=["$.order"])
        for name in ("one", "other")
    )
    service = EnterpriseService.objects.create(interface="ORDERS", structure=one)
    a_rule(structure=one)
    error, client = a_failure(), somebody(Right.REVEAL)
    address = reverse("partner-step", args=["service"])
    chosen = f"{address}?service={service.pk}&structure={other.pk}"
    assert client.post(chosen, {"store_into": "1"}).status_code == 303
    service.refresh_from_db()
    assert service.structure == one
    assert SECRET not in page_of(client, error)
    # Nor does a person who may reveal change it by a button that says nothing of it.
    assert (
        "is stored into one already"
        in somebody().post(chosen, {"store_into": "1"}, follow=True).text
    )
    service.refresh_from_db()
    assert service.structure == one
