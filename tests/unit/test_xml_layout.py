"""XML laid out for editing: only blanks between tags are added, and only where they say nothing."""

import re

import pytest
from lxml import etree

from integration.selectors.failures.xml_layout import laid_out

pytestmark = pytest.mark.fast

WHOLE = '<?xml version="1.0" encoding="UTF-8"?><a x="1>0"><b>1 &amp; 2</b><c><d/></c><e></e></a>'


def test_each_element_gets_a_line_and_values_stay_beside_their_tags() -> None:
    assert laid_out(WHOLE).split("\n") == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<a x="1>0">',
        "  <b>1 &amp; 2</b>",
        "  <c>",
        "    <d/>",
        "  </c>",
        "  <e></e>",
        "</a>",
    ]


def test_nothing_but_blanks_between_tags_is_added() -> None:
    assert re.sub(r">\s+<", "><", laid_out(WHOLE)) == WHOLE
    assert etree.fromstring(laid_out(WHOLE).encode()).findtext("b") == "1 & 2"


@pytest.mark.parametrize(
    "text",
    [
        "<p>one <b>word</b></p>",
        "<p><b>a</b> and <b>b</b></p>",
        '<p xml:space="preserve"><b/> <b/></p>',
        "<p><![CDATA[<b/>]]></p>",
        "<p><!-- so --><b/></p>",
        '<!DOCTYPE p [<!ENTITY e "x">]><p><b>&e;</b></p>',
        "<p><b></p>",
        "not XML",
        "",
    ],
)
def test_where_blanks_may_matter_the_text_stays_as_it_is(text: str) -> None:
    assert laid_out(text) == text
