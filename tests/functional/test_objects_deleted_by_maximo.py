"""Maximo says in the message itself that an object is deleted: `action="Delete"`."""

from typing import Any

import pytest

from integration.documents.structures import plan_for
from integration.handlers.failures import Applied
from integration.message import Message
from integration.models import ObjectStructure, StoredObject
from integration.policy.failure import Failure
from integration.store.objects import store_documents
from integration.testing import a_message

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
LINE = '<POLINE action="Delete"><LINE>1</LINE></POLINE>'
NAMESPACE = ' xmlns="http://www.ibm.com/maximo"'


def order(
    action: str = "", *, root: str = "SyncMXPO", of_set: str = "MXPOSet", inside: str = ""
) -> Message:
    said = f' action="{action}"' if action else ""
    text = (
        f"<{root}{NAMESPACE}><!-- made by hand --><{of_set}><PO{said}><PONUM>4711</PONUM>{inside}"
        f"</PO></{of_set}></{root}>"
    )
    return a_message(text)


def orders(tombstone: str) -> ObjectStructure:
    return ObjectStructure.objects.create(
        name="orders", key_paths=["//PO/PONUM"], tombstone=tombstone
    )


def test_it_is_held_unless_the_structure_deletes() -> None:
    structure = orders("hold")
    assert store_documents(structure, [order()]) == [Applied()]
    [verdict] = store_documents(structure, [order("Delete")])
    assert isinstance(verdict, Failure)
    assert verdict.code == "DELETE_ACTION"
    assert "<PONUM>4711" in StoredObject.objects.get().xml


@pytest.mark.parametrize("root", ["SyncMXPO", "CreateMXPO", "PublishMXPO"])
def test_it_deletes_where_the_structure_does(root: str) -> None:
    structure = orders("delete")
    assert store_documents(structure, [order(root=root)]) == [Applied()]
    assert store_documents(structure, [order("Delete", root=root)]) == [Applied()]
    stored = StoredObject.objects.get()
    assert stored.is_deleted
    assert stored.xml == ""
    assert store_documents(structure, [order("AddChange", root=root)]) == [Applied()]
    assert not StoredObject.objects.get().is_deleted


@pytest.mark.parametrize(
    "said",
    [
        {"action": "Change"},
        {"inside": LINE},
        {"action": "Delete", "of_set": "Orders"},
        {"action": "Delete", "root": "Message"},
    ],
    ids=["another action", "of a line", "no set", "another root"],
)
def test_whatever_is_no_deletion_of_the_object_is_stored(said: dict[str, Any]) -> None:
    structure = orders("hold")
    assert plan_for(structure).objection(order(**said).body) is None
    assert store_documents(structure, [order(**said)]) == [Applied()]
    assert not StoredObject.objects.get().is_deleted
