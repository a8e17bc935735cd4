"""When an operation pauses by itself: the rule as people write it, and what is enough."""

import pytest

from integration.policy.operations import FEWEST_OF_A_SHARE, NEVER, StopRule

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "rule", "told"),
    [
        ("", NEVER, ""),
        (" 100 ", StopRule(after=100), "100"),
        ("1000000", StopRule(after=1_000_000), "1,000,000"),
        ("5%", StopRule(share=5), "5 %"),
        (" 100 % ", StopRule(share=100), "100 %"),
    ],
)
def test_a_rule_is_read_and_told(text: str, rule: StopRule, told: str) -> None:
    assert StopRule.read(text) == rule
    assert str(rule) == told


@pytest.mark.parametrize(
    "text", ["0", "-1", "many", "1.5", "0%", "101 %", "%", "1000001", "9" * 30, "²", "5 % of it"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a number such as 100"):
        StopRule.read(text)


@pytest.mark.parametrize(
    ("rule", "released", "enough"),
    [
        (NEVER, 1_000_000, None),
        (StopRule(after=7), 0, 7),
        (StopRule(share=5), 0, FEWEST_OF_A_SHARE),
        (StopRule(share=5), 200, 10),
        (StopRule(share=5), 1_001, 51),
        (StopRule(after=20, share=5), 10_000, 20),
        (StopRule(after=2_000, share=5), 10_000, 500),
    ],
)
def test_the_first_limit_that_is_met_counts(
    rule: StopRule, released: int, enough: int | None
) -> None:
    assert rule.enough(released) == enough
