"""Storing configuration: one row of audit a change, no lost update, no secret told."""

from typing import Any

import pytest
from django.db.models.signals import post_init
from django.utils import timezone

from crontasks.configfile import applying
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import ChangedMeanwhileError, InUseError
from integration.models import (
    ConfigurationChange,
    Endpoint,
    ExternalSystem,
    ObjectStructure,
    Provider,
    Queue,
    StoredObject,
)
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

ANNA = Author("anna", " because ")


def test_a_new_row_a_change_and_a_deletion_are_one_row_of_audit_each() -> None:
    system = ExternalSystem(name="eam")
    configuration.save(system, ANNA)
    system.description = "the plant"
    configuration.save(system, ANNA)
    assert configuration.save(system, ANNA) is None
    number = system.pk
    configuration.delete(system, ANNA)
    told = ConfigurationChange.objects.order_by("id")
    limits = {"max_body_bytes": 10 * 2**20, "requests_per_minute": None, "legacy_door": False}
    assert [(c.action, c.before, c.after) for c in told] == [
        ("create", None, {"name": "eam", "description": "", "enabled": True, **limits}),
        ("change", {"description": ""}, {"description": "the plant"}),
        ("delete", {"name": "eam", "description": "the plant", "enabled": True, **limits}, None),
    ]
    assert {(c.actor, c.reason, c.subject) for c in told} == {("anna", "because", str(number))}


def test_what_was_seen_is_what_is_changed() -> None:
    system = ExternalSystem.objects.create(name="eam")
    seen = configuration.stamp(system)
    ExternalSystem.objects.update(description="theirs")
    system.description = "mine"
    with pytest.raises(ChangedMeanwhileError, match="eam") as refused:
        configuration.save(system, ANNA, seen=seen)
    stored = refused.value.stored
    assert isinstance(stored, ExternalSystem)
    assert stored.description == "theirs"
    configuration.save(system, ANNA, seen=configuration.stamp(stored))
    assert ExternalSystem.objects.get().description == "mine"
    assert ConfigurationChange.objects.get().before == {"description": "theirs"}


def test_a_row_deleted_meanwhile_does_not_come_back() -> None:
    system = ExternalSystem.objects.create(name="eam")
    seen = configuration.stamp(system)
    ExternalSystem.objects.all().delete()
    with pytest.raises(ChangedMeanwhileError, match="eam") as refused:
        configuration.save(system, ANNA, seen=seen)
    assert (refused.value.code, refused.value.stored) == ("CHANGED_MEANWHILE", None)
    assert not ExternalSystem.objects.exists()


def test_columns_of_the_engine_are_not_written_back() -> None:
    queue = a_queue_row()
    as_opened = Queue.objects.get()
    asked_at = timezone.now()
    Queue.objects.update(start_requested_at=asked_at)
    as_opened.description = "changed"
    configuration.save(as_opened, ANNA)
    before, queue = queue.changed_at, Queue.objects.get()
    assert (queue.description, queue.start_requested_at) == ("changed", asked_at)
    assert queue.changed_at > before


def test_the_stamp_notices_a_secret_and_does_not_give_it_away() -> None:
    provider = Provider.objects.create(name="main", bootstrap_servers="h:1", password="first")
    stamps = {configuration.stamp(provider)}
    for password in ("second", ""):
        provider.password = password
        stamps.add(configuration.stamp(provider))
    assert len(stamps) == 3
    provider.password = "second"
    configuration.save(provider, ANNA)
    change = ConfigurationChange.objects.get()
    assert (change.before, change.after) == ({"password": "set"}, {"password": "set anew"})


def test_what_is_in_use_stays_and_leaves_no_audit() -> None:
    system = ExternalSystem.objects.create(name="eam")
    Endpoint.objects.create(name="post", system=system, endpoint_type="http")
    with pytest.raises(InUseError, match=r"eam .*endpoint post") as refused:
        configuration.delete(system, ANNA)
    assert refused.value.code == "IN_USE"
    assert ExternalSystem.objects.exists()
    assert not ConfigurationChange.objects.exists()


def test_of_what_needs_it_only_a_few_are_looked_at() -> None:
    structure = ObjectStructure.objects.create(name="orders", key_paths=["$.a"], json_schema={})
    known = {"structure": structure, "arrival_batch": 1, "updated_at": timezone.now()}
    documents = [StoredObject(key=f"k{n}", arrival_index=n, **known) for n in range(200)]
    StoredObject.objects.bulk_create(documents)
    looked_at: list[object] = []

    def looks(instance: StoredObject, **_: object) -> None:
        looked_at.append(instance)

    post_init.connect(looks, sender=StoredObject)
    try:
        with pytest.raises(InUseError, match=rf"object {structure.pk}:k\d.* and more,"):
            configuration.delete(structure, ANNA)
    finally:
        post_init.disconnect(looks, sender=StoredObject)
    assert 0 < len(looked_at) <= 6
    assert StoredObject.objects.count() == 200


def test_a_file_leaves_what_somebody_changes_while_it_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = a_queue_row(description="old")
    fill = applying._Walk._fill

    def and_pause(walk: Any, subject: Any) -> bool:
        is_whole = fill(walk, subject)
        Queue.objects.update(paused=True, pause_reason="stop", batch_size=7)
        return is_whole

    monkeypatch.setattr(applying._Walk, "_fill", and_pause)
    text = f"format: 1\nqueues:\n- name: {queue.name}\n  description: new\n"
    applying.apply(text.encode(), author=ANNA, lookup=lambda _: None)
    queue.refresh_from_db()
    assert (queue.description, queue.paused, queue.batch_size) == ("new", True, 7)
