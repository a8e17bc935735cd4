"""The fate of a branch is told by names: later, earlier, unknown or none."""

from dataclasses import replace
from uuid import UUID

import pytest

from integration.policy.branches import (
    LONGEST_ALIAS,
    Branch,
    Decision,
    Second,
    branch_in_second,
    branch_named,
    branch_of,
    decided,
    home_of,
)

pytestmark = pytest.mark.fast
BATCH, OTHER = UUID(int=1), UUID(int=2)
BRANCH = Branch("a:b", 7, 3, 120, 9, 4_000, BATCH)
HOME = home_of("7261/5")


def test_a_name_leads_back_to_its_branch() -> None:
    assert branch_named(str(BRANCH)) == BRANCH
    assert branch_named(str(replace(BRANCH, deployment="x" * 300))) is not None
    assert len(str(replace(BRANCH, deployment="x" * 300))) < 200


def test_a_name_tells_of_the_second_database_and_is_another_one_there() -> None:
    both = replace(BRANCH, second=Second("ledger-2", 12_345))
    assert branch_named(str(both)) == both
    assert branch_in_second(both.name_in_second(HOME), HOME) == both
    assert branch_in_second(both.name_in_second(home_of("7261/6")), HOME) is None
    far = replace(both, deployment="x" * 300, next_offset=2**63 - 1, epoch=2**63 - 1)
    far = replace(far, queue=2**31, partition=2**31, arrival=2**63 - 1)
    longest = replace(far, second=Second("x" * LONGEST_ALIAS, 2**64 - 1))
    assert len(longest.name_in_second(HOME)) < 200


@pytest.mark.parametrize("name", ["", "sluice:a:1:2:3:4:5:xyz", "other:a:1:2:3:4:5:" + "0" * 32])
def test_a_foreign_name_is_none(name: str) -> None:
    assert branch_named(name) is None


@pytest.mark.parametrize("own", ["a", "a:b", "a:b:7", "x" * 50 + "1"])
@pytest.mark.parametrize("other", ["a:b:7:3", "A", "a:", "x" * 50 + "2", "x" * 50])
def test_a_deployment_knows_its_own_names_whatever_others_are_called(own: str, other: str) -> None:
    branch = branch_of(own, str(replace(BRANCH, deployment=own)))
    assert branch is not None
    assert str(branch) == str(replace(BRANCH, deployment=own))
    assert branch_of(own, str(replace(BRANCH, deployment=other))) is None


@pytest.mark.parametrize(
    ("mark", "decision"),
    [
        (str(BRANCH), Decision.COMMIT),
        ("", Decision.ROLLBACK),
        (str(replace(BRANCH, arrival=3_999, batch=OTHER)), Decision.ROLLBACK),
        # A batch of rows alone leaves the position where it is; the number tells what came before.
        (str(replace(BRANCH, arrival=3_999, next_offset=120, batch=OTHER)), Decision.ROLLBACK),
        (str(replace(BRANCH, arrival=3_999, epoch=8, next_offset=900)), Decision.ROLLBACK),
        (str(replace(BRANCH, batch=OTHER)), Decision.UNKNOWN),
        (str(replace(BRANCH, arrival=4_001, next_offset=5)), Decision.UNKNOWN),
        ("somebody else's", Decision.UNKNOWN),
        (None, Decision.UNKNOWN),
    ],
)
def test_only_its_own_name_commits_it(mark: str | None, decision: Decision) -> None:
    assert decided(BRANCH, mark) is decision
