"""Masking: which values of a document are hidden, as what, and how they come back."""

import json
from typing import Any

import pytest

from integration.masking.mask import NOTHING, PLACEHOLDER, Mask, Part, Rule, mask_of
from integration.masking.matcher import Style
from integration.masking.restoring import Misplaced, restored
from integration.masking.steps import steps_of
from integration.masking.words import Words
from integration.paths import BadPath
from tests.support.growth import slow_parser

pytestmark = pytest.mark.fast

SECRET = "4000-1234"


def a_mask(*paths: str, style: Style = Style.WHOLE) -> Mask:
    return mask_of(frozenset(Rule(Part.PAYLOAD, path, style) for path in paths))


def hidden(text: str, *paths: str, style: Style = Style.WHOLE) -> Any:
    shown = a_mask(*paths, style=style).document(text, is_xml=text.startswith("<"))
    assert shown is not None
    return shown


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("$.card", {"card": SECRET}),
        ("$.card", [{"card": SECRET}]),
        ("$.person.card", {"person": {"card": SECRET}}),
        ("$.person.card", {"person": [{"card": SECRET}, {"card": SECRET}]}),
        ("$.people[*].card", {"people": [{"card": SECRET}]}),
        ("$.people[*].card", {"people": {"card": SECRET}}),
        ("$.people[*]", {"people": SECRET}),
        ("$.people[*]", {"people": [SECRET, [SECRET]]}),
        ("$..card", {"a": [{"b": {"card": SECRET}}], "card": SECRET}),
        ("$.*.card", {"any": {"card": SECRET}}),
        ("$['a card']", {"a card": SECRET}),
        ("$.person", {"person": {"name": SECRET, "more": [{"x": SECRET}]}}),
        ("$..person..", None),
    ],
)
def test_a_json_path_hides_every_value_it_can_mean(path: str, document: object) -> None:
    if document is None:
        with pytest.raises(BadPath):
            steps_of(path)
        return
    for text in (json.dumps(document), json.dumps(document, indent=2)):
        shown = hidden(text, path)
        assert SECRET not in shown.text
        assert shown.values == {SECRET}
        json.loads(shown.text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/A/card", f"<A><card>{SECRET}</card></A>"),
        ("/A/card", f"<x:A xmlns:x='urn:x'><x:card a='1'>{SECRET}</x:card></x:A>"),
        ("/A/card", f"<A><card a='{SECRET}'/></A>"),
        ("/A/card", f"<A><card><![CDATA[{SECRET}]]><b><c>{SECRET}</c></b></card></A>"),
        ("/A/@card", f"<A b='>' card = '{SECRET}'/>"),
        ("//card", f"<A><b><card>{SECRET}</card></b><card>{SECRET}</card></A>"),
        ("//@card", f"<A><b card='{SECRET}'>1</b></A>"),
        ("/A/*/card", f"<A><b><card>{SECRET}</card></b></A>"),
        ("/A/card/text()", f"<A><card>{SECRET}</card></A>"),
        ("/A/b/@*", f"<A><b c='{SECRET}' d='x'/></A>"),
    ],
)
def test_an_xpath_hides_every_value_it_can_mean(path: str, text: str) -> None:
    shown = hidden(text, path)
    assert SECRET not in shown.text
    assert SECRET in shown.values
    again = hidden(shown.text, path)
    assert [place.path for place in again.places] == [place.path for place in shown.places]


def test_what_no_path_means_is_left_to_the_character() -> None:
    text = '{ "card":1.10,"b" : {"card2":"x"}, "a": [1 , 2.50]}'
    assert hidden(text, "$.b.card").text == text
    assert hidden(text, "/card").text == text
    assert hidden(text, "$.a").text == '{ "card":1.10,"b" : {"card2":"x"}, "a": "⟦masked 1⟧"}'


@pytest.mark.parametrize(
    "path", ["$.a[0]", "$.a[?@.b==1].c", "/A[1]/b", "/A[b='1']/c", "$", "card", "$.a..b..c"]
)
def test_a_path_whose_meaning_depends_on_the_document_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        steps_of(path)


def test_the_last_four_are_left_of_long_values_only() -> None:
    text = '{"a":"4000123412341234","b":"1234567","c":12345678,"d":["12345678"],"e":"12345é78"}'
    shown = json.loads(hidden(text, "$.*", style=Style.LAST_FOUR).text)
    assert shown["a"] == "⟦masked 1: …1234⟧"
    assert shown["b"] == "⟦masked 2⟧"
    assert shown["c"] == "⟦masked 3: …5678⟧"
    assert shown["e"] == "⟦masked 5⟧"
    both = mask_of(
        frozenset({Rule(Part.KEY, "", Style.WHOLE), Rule(Part.KEY, "", Style.LAST_FOUR)})
    )
    assert both.key_text("12345678") == "⟦masked⟧", "the stricter of two rules counts"


def test_headers_are_masked_whatever_their_case() -> None:
    mask = mask_of(frozenset({Rule(Part.HEADER, "X-Token", Style.WHOLE)}))
    assert mask.header("x-token", SECRET) == "⟦masked⟧"
    assert mask.header("other", SECRET) == SECRET
    assert mask_of(frozenset()) is NOTHING


@pytest.mark.parametrize("text", [f'{{"a": "{SECRET}"}}', f'["{SECRET}"]', f"<A>{SECRET}</A>"])
def test_a_rule_that_cannot_be_understood_hides_all(text: str) -> None:
    assert SECRET not in hidden(text, "$.a[0]").text


def test_untouched_placeholders_become_their_true_values_again() -> None:
    original = '{"a":{"b":"one"},"card":[1.10,"two"],"free":"x"}'
    mask = a_mask("$.a.b", "$.card")
    shown = mask.document(original, is_xml=False)
    assert shown is not None
    edited = json.dumps(json.loads(shown.text) | {"free": "y"}, indent=1, ensure_ascii=False)
    made = restored(edited, original, mask, is_xml=False)
    assert isinstance(made, str)
    assert json.loads(made) == {"a": {"b": "one"}, "card": [1.10, "two"], "free": "y"}
    assert "1.10" in made, "a number is what was written, not what it comes to"
    replaced = edited.replace("⟦masked 1⟧", "new")
    assert json.loads(str(restored(replaced, original, mask, is_xml=False)))["a"] == {"b": "new"}


@pytest.mark.parametrize(
    "edited",
    [
        '{"a":"⟦masked 1⟧","free":"⟦masked 1⟧"}',
        '{"free":"⟦masked 1⟧"}',
        '{"a":"see ⟦masked 1⟧"}',
        '{"a":"⟦masked 2⟧"}',
        '{"a":["⟦masked 1⟧"]}',
        '{"⟦masked 1⟧":1}',
        '{"a":"⟦masked 1⟧"',
        "⟦masked 1⟧",
    ],
)
def test_a_placeholder_anywhere_else_is_refused(edited: str) -> None:
    made = restored(edited, '{"a":"secret","free":"x"}', a_mask("$.a"), is_xml=False)
    assert isinstance(made, Misplaced)


def test_xml_values_come_back_as_they_were_written() -> None:
    original = "<A><card>a&amp;b</card><n id='1&lt;2'>x</n></A>"
    mask = a_mask("/A/card", "/A/n/@id")
    shown = mask.document(original, is_xml=True)
    assert shown is not None
    assert PLACEHOLDER.findall(shown.text) == ["1", "2"]
    edited = shown.text.replace(">x<", ">y<").replace("</card>", "</card>\n ")
    made = restored(edited, original, mask, is_xml=True)
    assert made == "<A><card>a&amp;b</card>\n <n id='1&lt;2'>y</n></A>"
    moved = shown.text.replace(">x<", ">⟦masked 1⟧<")
    assert isinstance(restored(moved, original, mask, is_xml=True), Misplaced)


@pytest.mark.parametrize(
    "text",
    [
        "no customer O'Neil",
        "no customer 'O\\'Neil'",
        'no customer "O\'Neil"',
        "card 4000-1234 of café",
        "caf\\u00e9",
    ],
)
def test_values_are_replaced_as_texts_quote_them(text: str) -> None:
    shown = Words(["O'Neil", SECRET, "café", "abc"], "…").hide(text)
    assert not any(value in shown for value in ("Neil", SECRET, "caf"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.5e10", "1.5E+10 is too much"),
        ("1.5e10", "Decimal('1.5E+10')"),
        ("1.5e10", "15000000000.0 is too much"),
        ("1.5e10", "15000000000 is too much"),
        (" -1.5E10 ", "-1.5E+10"),
        ("1200.50", "1200.5 is too much"),
        ("0.000000012", "1.2e-08"),
        ("0.000000012", "1.2E-8"),
        ("12345678901234567890", "1.2345678901234567e+19"),
        ("A&B Ltd", "<NAME>A&amp;B Ltd</NAME>"),
        ("a < b > c", "<NAME>a &lt; b &gt; c</NAME>"),
        ('6" pipe & more', '<PIPE size="6&quot; pipe &amp; more"/>'),
    ],
)
def test_values_are_replaced_in_every_notation(value: str, text: str) -> None:
    shown = Words([value], "…").hide(text)
    assert "…" in shown
    assert not any(rest in shown for rest in ("1.5", "1500", "1200", "1.2", "Ltd", "b &", "pipe"))


@pytest.mark.parametrize("value", ["50", "1e9", "10.1.2.3", "1_000", "Infinity", "1e99999999999"])
def test_what_is_short_or_no_number_has_one_notation(value: str) -> None:
    text = "50.0, 1E+9, 1000000000.0, 1000, inf"
    assert Words([value], "…").hide(text) == text


@pytest.mark.parametrize("exponent", ["", "e9999", "e-9999", "e999999999"])
def test_a_number_costs_time_by_its_length_and_not_by_its_value(exponent: str) -> None:
    def hide(source: bytes) -> object:
        return Words([source.decode()], "…").hide("anything")

    assert not slow_parser(hide, lambda n: b"9" * n + exponent.encode())
    assert Words([f"1{exponent}"], "…").hide("anything") == "anything"


def test_of_a_message_with_too_many_values_no_text_is_shown() -> None:
    words = Words([f"value {n}" for n in range(3_000)], "…")
    assert words.hide("anything") == "…"
    assert words.hide("") == ""


@pytest.mark.parametrize(
    ("path", "asked", "expected"),
    [
        ("$.a.b", "$.a.b", True),
        ("$.a", "$.a.b[0].c", True),
        ("$..b", "$.a.b", True),
        ("$.a.b", "$.a.c", False),
        ("$.a.b", "$.a[?@.x].c", True),
        ("$.a.b", "/a/b", False),
        ("/A/b", "/A/b", True),
        ("/A/b/@id", "/A/b/@id", True),
        ("/A/b/@id", "/A/b/@no", False),
        ("//b", "/A/c/b", True),
        ("/A/b", "/A/*", True),
        ("/A/b", "", False),
    ],
)
def test_it_is_known_whether_another_path_may_find_a_masked_value(
    path: str, asked: str, expected: bool
) -> None:
    assert a_mask(path).covers(asked) is expected


def _wide(n: int) -> str:
    return json.dumps({f"m{i}": {"card": "x" * 9} for i in range(n)})


def _list(n: int) -> str:
    return json.dumps([{"a": [{"card": i}]} for i in range(n)])


def _inside(n: int) -> str:
    return json.dumps({"card": [{"a": "b", "c": [i]} for i in range(n)]})


def _deep(n: int) -> str:
    return json.dumps([json.loads('{"a":' * 190 + "1" + "}" * 190) for _ in range(n // 100)])


def _xml(n: int) -> str:
    return "<A>" + '<b i="1"><card>x</card></b>' * n + "</A>"


def _names(n: int) -> str:
    return f"<A><{'a' * n} {'b' * n}='{' x' * n}'/></A>"


UNITS = 4_000
MANY = (*(f"$..card{n}" for n in range(40)), "$..card", "//card", "$.*[*].*.z", "//@zz")


@pytest.mark.parametrize("made", [_wide, _list, _inside, _deep, _xml, _names])
def test_the_time_grows_with_the_document_and_not_faster(made: Any) -> None:
    mask = a_mask(*MANY)

    def hide(source: bytes) -> object:
        return mask.document(source.decode(), is_xml=source.startswith(b"<"))

    assert not slow_parser(hide, lambda n: made(n).encode(), UNITS)


def test_the_time_hardly_grows_with_the_rules() -> None:
    text = _wide(2_000)

    def hide(source: bytes) -> object:
        return a_mask(*json.loads(source)).document(text, is_xml=False)

    def rules(n: int) -> bytes:
        return json.dumps([f"$..card{i}" for i in range(n)]).encode()

    assert not slow_parser(hide, rules, 200)
