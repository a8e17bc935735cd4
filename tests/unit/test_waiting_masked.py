"""What waits at a JMS broker is masked as the headers and the key that it becomes."""

import pytest

from integration.amqp.waiting import JmsMessage, Property
from integration.masking.mask import HIDDEN, Part, Rule, mask_of
from integration.masking.matcher import Style
from integration.selectors.queues.waiting import HEADERS, covered
from integration.values import Record

pytestmark = pytest.mark.fast
FOUND = "4000-1234-9999"
SAID = JmsMessage(
    record=Record(0, 0, None, None, b"{}", []),
    size=2,
    jms_type=FOUND,
    correlation_id=FOUND,
    reply_to=FOUND,
    group_id=FOUND,
    user=FOUND,
    properties=(Property("card", "String", FOUND),),
)


def hidden_by(*rules: Rule) -> set[str]:
    """The names of the fields that are hidden, and of the properties."""
    shown = covered(SAID, mask_of(frozenset(rules)))
    fields = {name for name in HEADERS if getattr(shown, name) == HIDDEN}
    assert all(getattr(shown, name) == FOUND for name in HEADERS if name not in fields)
    return fields | {one.name for one in shown.properties if one.text == HIDDEN}


@pytest.mark.parametrize(("field", "header"), sorted(HEADERS.items()))
def test_a_rule_for_a_header_hides_the_field_it_is_made_of(field: str, header: str) -> None:
    assert hidden_by(Rule(Part.HEADER, header, Style.WHOLE)) == {field}


def test_a_rule_for_all_headers_hides_fields_and_properties() -> None:
    assert hidden_by(Rule(Part.HEADER, "*", Style.WHOLE)) == {*HEADERS, "card"}


def test_a_rule_for_the_key_hides_the_group() -> None:
    assert hidden_by(Rule(Part.KEY, "", Style.WHOLE)) == {"group_id"}


@pytest.mark.parametrize("part", [Part.HEADER, Part.KEY])
def test_the_stricter_rule_for_the_group_holds(part: Part) -> None:
    other = Part.KEY if part is Part.HEADER else Part.HEADER
    paths = {Part.KEY: "", Part.HEADER: "JMSXGroupID"}
    whole = Rule(part, paths[part], Style.WHOLE)
    last = Rule(other, paths[other], Style.LAST_FOUR)
    assert hidden_by(whole, last) == {"group_id"}


def test_without_a_rule_all_is_shown() -> None:
    assert hidden_by() == set()
