"""However messages of one key come together, the object store ends as if each came alone."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.handlers import Applied, Superseded
from integration.message import Arrival, Message
from integration.models import ObjectStructure, StoredObject
from integration.store.objects import store_documents
from integration.testing import a_message

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def orders() -> ObjectStructure:
    return ObjectStructure.objects.create(
        name="orders", key_paths=["$.po"], version_path="$.changed"
    )


def order(changed: object, arrival: Arrival, n: int = 0) -> Message:
    return a_message({"po": "1", "changed": changed, "n": n}, arrival=arrival)


def stored_version() -> Any:
    return StoredObject.objects.get().document["changed"]


def test_a_message_without_version_between_two_counts_in_one_batch_as_well(
    orders: ObjectStructure,
) -> None:
    store_documents(orders, [order(5, Arrival(1, 0))])
    verdicts = store_documents(orders, [order(None, Arrival(2, 0)), order(3, Arrival(3, 0))])
    assert verdicts == [Applied(), Applied()]
    assert stored_version() == 3


@pytest.mark.parametrize(("stored", "counts"), [(Arrival(4, 3), 4), (Arrival(6, 0), 3)])
def test_what_is_stored_may_have_arrived_between_those_that_come_together(
    orders: ObjectStructure, stored: Arrival, counts: int
) -> None:
    """Released and replayed messages have numbers of long ago."""
    store_documents(orders, [order(None, stored)])
    arrivals = {5: Arrival(4, 1), 4: Arrival(4, 5), 3: Arrival(7, 1)}
    verdicts = store_documents(orders, [order(*one) for one in arrivals.items()])
    assert stored_version() == counts
    assert verdicts == [Applied() if n == counts else Superseded() for n in arrivals]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=7),
    st.sampled_from([None, 2]),
    st.sampled_from(["one batch", "several batches", "in any order"]),
    st.data(),
)
def test_the_borders_of_batches_do_not_matter(
    orders: ObjectStructure, versions: list[Any], stored: Any, come: str, data: st.DataObject
) -> None:
    """From Kafka those of one batch come together, from the error table also of several."""
    places: Any = range(len(versions))
    if come == "in any order":
        places = data.draw(st.permutations(places))
    arrivals = [Arrival(5, 2 * at) if come == "one batch" else Arrival(2 * at, 0) for at in places]
    messages = [
        order(version, arrival, n)
        for n, (version, arrival) in enumerate(zip(versions, arrivals, strict=True))
    ]
    # Before all of them, behind all of them, or in between.
    before = data.draw(
        st.sampled_from([Arrival(-1, 0), Arrival(99, 0), Arrival(5, 3), Arrival(5, 7)])
    )

    def ends(sizes: list[int]) -> Any:
        StoredObject.objects.all().delete()
        store_documents(orders, [order(stored, before, -1)])
        rest = list(messages)
        for size in sizes:
            store_documents(orders, rest[:size])
            del rest[:size]
        kept = ("document", "sort_version", "arrival_batch", "arrival_index")
        return StoredObject.objects.values_list(*kept).get()

    assert ends([len(messages)]) == ends([1] * len(messages))
