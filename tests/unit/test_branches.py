"""The fate of a branch is told by names: later, earlier, unknown or none."""

from dataclasses import replace
from uuid import UUID

import pytest

from integration.policy.branches import Branch, Decision, branch_named, decided

pytestmark = pytest.mark.fast
BATCH, OTHER = UUID(int=1), UUID(int=2)
BRANCH = Branch("a:b", 7, 3, 120, 9, BATCH)


def test_a_name_leads_back_to_its_branch() -> None:
    assert branch_named(str(BRANCH)) == BRANCH
    assert branch_named(str(replace(BRANCH, deployment="x" * 300))) is not None
    assert len(str(replace(BRANCH, deployment="x" * 300))) < 200


@pytest.mark.parametrize("name", ["", "sluice:a:1:2:3:4:xyz", "other:a:1:2:3:4:" + "0" * 32])
def test_a_foreign_name_is_none(name: str) -> None:
    assert branch_named(name) is None


@pytest.mark.parametrize(
    ("mark", "decision"),
    [
        (str(BRANCH), Decision.COMMIT),
        ("", Decision.ROLLBACK),
        (str(replace(BRANCH, next_offset=100, batch=OTHER)), Decision.ROLLBACK),
        # A rewind lowered the position; the epoch tells that it came before.
        (str(replace(BRANCH, epoch=8, next_offset=900)), Decision.ROLLBACK),
        (str(replace(BRANCH, batch=OTHER)), Decision.UNKNOWN),
        (str(replace(BRANCH, epoch=10, next_offset=5)), Decision.UNKNOWN),
        ("somebody else's", Decision.UNKNOWN),
        (None, Decision.UNKNOWN),
    ],
)
def test_only_its_own_name_commits_it(mark: str | None, decision: Decision) -> None:
    assert decided(BRANCH, mark) is decision
