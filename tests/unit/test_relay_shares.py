"""How a provider's topics are divided among the shards of its relay."""

import hashlib

import pytest

from integration.policy.relay_shares import (
    BUCKETS,
    EVERYTHING,
    MOST_SHARDS,
    NOTHING,
    Share,
    bucket,
    shard_of,
    share,
)

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("shards", range(1, MOST_SHARDS + 1))
def test_every_bucket_is_in_the_share_of_one_shard(shards: int) -> None:
    owners = [
        [shard for shard in range(MOST_SHARDS) if place in share(shard, shards)]
        for place in range(BUCKETS)
    ]
    assert all(len(found) == 1 for found in owners)
    sizes = [owners.count([shard]) for shard in range(shards)]
    assert max(sizes) - min(sizes) <= 1


def test_one_shard_has_everything_and_one_beyond_the_number_nothing() -> None:
    assert share(0, 1) == EVERYTHING
    assert share(3, 3) == NOTHING


@pytest.mark.parametrize("shards", [1, 3, 4, 16])
def test_a_topic_is_in_the_share_of_its_shard(shards: int) -> None:
    for number in range(300):
        topic = f"plant-{number}"
        assert bucket(topic) in share(shard_of(topic, shards), shards)


def test_the_bucket_of_a_topic_never_changes() -> None:
    """Relays of two releases side by side must agree about it, and so must the index."""
    assert bucket("orders") == int(hashlib.md5(b"orders").hexdigest()[:2], 16)  # noqa: S324
    assert {bucket(f"t{number}") for number in range(3_000)} == set(range(BUCKETS))


def test_what_two_shares_have_in_common() -> None:
    assert Share(0, 64).common(Share(32, 128)) == Share(32, 64)
    assert Share(0, 64).common(Share(64, 128)) == NOTHING
    assert not Share(0, 64).common(NOTHING)
