"""Recipes: the same change in every document, exact, and never more than what was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.documents.exact_json import encode
from integration.envelope import DEFAULT
from integration.envelope.json_text import parse_json
from integration.recipes import (
    Misfit,
    Unreadable,
    compile_recipe,
    compile_written,
    pointer_of,
    set_value,
)

pytestmark = pytest.mark.fast


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def applied(recipe: str, document: str) -> str | Misfit:
    body = compile_recipe(recipe).apply(parse_json(document, 200))
    return body if isinstance(body, Misfit) else encode(body)


@pytest.mark.parametrize("number", ["1.10", "12345678901234567890123", "1E-30", "0.1", "-0.0"])
def test_numbers_keep_every_digit_in_the_recipe_and_in_the_document(number):
    recipe = set_value("$.a", number, is_text=False, add_missing=False)
    assert applied(recipe, f'{{"a":0,"b":{number}}}') == f'{{"a":{number},"b":{number}}}'


@given(st.decimals(allow_nan=False, allow_infinity=False, places=20))
def test_any_number_that_is_not_touched_stays_equal(number):
    text = encode({"a": 1, "n": number})
    changed = applied('[{"op":"replace","path":"/a","value":2}]', text)
    assert parse_json(changed, 10)["n"] == parse_json(text, 10)["n"]


def test_a_text_stays_a_text():
    recipe = set_value("/a", "007", is_text=True, add_missing=False)
    assert applied(recipe, '{"a":1}') == '{"a":"007"}'


@pytest.mark.parametrize("document", ['{"b":1}', '{"b":{"#a":1}}', '{"a#":1}'])
def test_what_is_missing_is_added_only_where_that_is_asked(document):
    finds_nothing = applied('[{"op":"replace","path":"/#b","value":1}]', document)
    assert isinstance(finds_nothing, Misfit)
    assert "finds nothing there" in finds_nothing.why
    recipe = set_value("$.n", "1", is_text=False, add_missing=True)
    assert applied(recipe, '{"b":1}') == '{"b":1,"n":1}'


def test_a_value_of_the_recipe_does_not_grow_from_message_to_message():
    recipe = compile_recipe(
        '[{"op":"add","path":"/a","value":[]},{"op":"add","path":"/a/-","value":1}]'
    )
    assert [encode(recipe.apply({})) for _ in range(3)] == ['{"a":[1]}'] * 3


def test_a_test_that_does_not_hold_leaves_the_message_alone():
    recipe = '[{"op":"test","path":"/a","value":1},{"op":"remove","path":"/a"}]'
    assert applied(recipe, '{"a":1}') == "{}"
    assert applied(recipe, '{"a":2}') == Misfit("“test /a” does not hold.")


@pytest.mark.parametrize(
    "steps",
    [
        [{"op": "copy", "from": "", "path": f"/k{n}"} for n in range(50)],
        [{"op": "copy", "from": "", "path": "/a" * 2**n} for n in range(11)],
        [{"op": "add", "path": "/a" * 100**n, "value": nested(180)} for n in range(2)],
    ],
    ids=["ever larger", "ever deeper", "deeper than is read"],
)
def test_a_document_never_grows_without_bound(steps):
    refused = applied(encode(steps), '{"a":{}}')
    assert isinstance(refused, Misfit)
    assert "far too large or deep" in refused.why


def test_a_document_of_the_largest_size_and_depth_can_still_be_changed():
    recipe = '[{"op":"move","from":"/b","path":"/c"}]'
    text = "x" * (DEFAULT.max_bytes - 100)
    changed = applied(recipe, f'{{"b":"{text}"}}')
    assert changed == f'{{"c":"{text}"}}'
    deep = encode(nested(DEFAULT.max_depth - 1))
    assert applied(recipe, f'{{"b":{deep}}}') == f'{{"c":{deep}}}'


@pytest.mark.parametrize("document", ['"text"', "7", "true"])
def test_a_single_value_is_no_document_to_change(document):
    assert isinstance(applied('[{"op":"replace","path":"","value":1}]', document), Misfit)


@pytest.mark.parametrize(
    "recipe",
    [
        "",
        "nonsense",
        "{}",
        "[]",
        "[1]",
        '[{"path":"/a"}]',
        '[{"op":["add"],"path":"/a","value":1}]',
        '[{"op":{},"path":"/a","value":1}]',
        '[{"op":"addne","path":"/a","value":1}]',
        '[{"op":"add","path":"a","value":1}]',
        '[{"op":"add","path":"/a~b","value":1}]',
        '[{"op":"add","path":"/a~","value":1}]',
        '[{"op":"add","path":"/a~2b","value":1}]',
        '[{"op":"move","from":"/a~b","path":"/a"}]',
        '[{"op":"add","path":"/a"}]',
        '[{"op":"move","path":"/a"}]',
        '[{"op":"remove"}]',
        f"[{','.join(['{}'] * 51)}]",
        " " * 20_001,
    ],
)
def test_what_is_no_patch_is_refused_before_any_message(recipe):
    with pytest.raises(Unreadable):
        compile_recipe(recipe)


@pytest.mark.parametrize("value", ["⟦masked 1⟧", "no ⟦masked 12: …4711⟧", "\\u27e6masked 1\\u27e7"])
def test_a_value_that_stands_for_a_hidden_one_is_refused_where_it_is_written(value):
    with pytest.raises(Unreadable, match="stands for a hidden value"):
        set_value("$.a", f'"{value}"', is_text=False, add_missing=False)
    recipe = f'[{{"op":"add","path":"/a","value":{{"b":["{value}"]}}}}]'
    with pytest.raises(Unreadable, match="stands for a hidden value"):
        compile_written(recipe)
    assert compile_recipe(recipe).steps == ("add /a",)  # It may have been stored before.


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("$.a.b", "/a/b"),
        ("$['a b'][0].c", "/a b/0/c"),
        ("$['x/y~z']", "/x~1y~0z"),
        ("/a/b", "/a/b"),
        (" $.a ", "/a"),
    ],
)
def test_paths_people_know_become_pointers(path, pointer):
    assert pointer_of(path) == pointer


@pytest.mark.parametrize("path", ["", "a.b", "$", "$..a", "$.a[*]", "$.a[?(@.b)]", "$.a,b c"])
def test_paths_that_may_mean_more_than_one_place_are_refused(path):
    with pytest.raises(Unreadable):
        pointer_of(path)


def test_a_stray_tilde_is_named_and_its_escapes_are_taken():
    with pytest.raises(Unreadable, match="in path a ~ is followed by neither 0 nor 1"):
        set_value("/a~b", "1", is_text=False, add_missing=True)
    assert applied('[{"op":"replace","path":"/a~01~1","value":2}]', '{"a~1/":1}') == '{"a~1/":2}'
