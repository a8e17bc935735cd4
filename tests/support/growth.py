"""How the time of patterns and parsers grows with their input: slow ones are found by measuring.

A pattern that can match one text in several ways tries them all before it gives up. Each is given
texts that repeat what its own repetitions repeat, with an end that it cannot match.
"""

import gc
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

# Doubling with each further character shows long before this; each step is four times the last.
SMALL: Final = range(6, 33, 2)
SMALL_SECONDS: Final = 0.05
# At this size a linear search takes some 25 microseconds and a quadratic one 8 milliseconds.
LARGE: Final = 2_000
FAST_SECONDS: Final = 0.002
# Measured at n and 4 n: linear is 4, quadratic 16. In between lies what caches and a busy machine
# add, and what they add does not come again in each trial.
TIMES: Final = 4
CLEARLY_LINEAR: Final = 5.0
# Of two trials: three times what is linear does not come by a busy machine twice.
CLEARLY_QUADRATIC: Final = 12.0
MOST_GROWTH: Final = 9.0
TRIALS: Final = 8
# Long before it is too long to be measured, and long enough to measure a quarter of its size.
GROWING_SECONDS: Final = 0.1
# A parser's texts are larger, because a parser does more for each byte.
TEXT_UNITS: Final = 10_000
TEXT_FAST_SECONDS: Final = 0.05
# For parsers that do so much for each byte that these would take minutes.
FEWER_UNITS: Final = 5_000
REPEATS: Final = {constants.MAX_REPEAT, constants.MIN_REPEAT}
MANY: Final = 16
# Whatever a pattern says: what texts are made of that mean harm.
ANYWAY: Final = (
    " ",
    "\n",
    "a",
    "0",
    "A1",
    "-",
    "_",
    ".",
    "/",
    '"',
    "\\",
    "[",
    "{",
    "<",
    "<!--",
    "=",
)
# What opens, closes and escapes: of those that a pattern names, each two are a text as well.
MARKS: Final = frozenset("\\'\"<>[]{}&;=/-")
FEW: Final = 5
ENDS: Final = ("", "\x00", "!", "\n\x00")
SAMPLES: Final = {
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_DIGIT: "0",
    constants.CATEGORY_WORD: "a",
    constants.CATEGORY_NOT_SPACE: "a",
    constants.CATEGORY_NOT_DIGIT: "a",
    constants.CATEGORY_NOT_WORD: "-",
}


def slow_pattern(pattern: re.Pattern[Any], methods: Sequence[str] = ("search",)) -> str:
    """Return the text that a pattern is slow on, as a sentence; empty where none was found.

    `methods` are those of the pattern that are called with it, such as search or fullmatch.
    """
    for before, pump in _attacks(pattern):
        for end in ENDS:
            for method in methods:
                call = _caller(pattern, method)
                if found := _slow(lambda n, c=call, b=before, p=pump, e=end: c(b + p * n + e)):  # type: ignore[misc]
                    return f"{pattern.pattern!r}.{method} of {before!r} + {pump!r} * n: {found}"
    return ""


def slow_parser(
    parse: Callable[[bytes], object], text: Callable[[int], bytes], units: int = TEXT_UNITS
) -> str:
    """Return how a parser grows on texts of n units where it is worse than linear, else nothing."""
    texts = {n: text(n) for n in (units, TIMES * units)}
    # A quadratic parser takes a sixteenth of the time for a quarter of the text.
    fast = TEXT_FAST_SECONDS * (units / TEXT_UNITS) ** 2
    took = _once(lambda: parse(texts[units]))
    if took * TIMES**2 < fast:
        return ""
    more = _once(lambda: parse(texts[TIMES * units]))
    if more < max(fast, CLEARLY_LINEAR * took):
        return ""
    return _growth(lambda n: parse(texts[n]), units)


def grows(call: Callable[[int], object], n: int) -> str:
    """Return how a call grows from n to 4 n where it is worse than linear, else nothing.

    Sizes in between are called first: what doubles with each unit is told before it takes hours.
    """
    for size in range(n, TIMES * n + 1, max(1, n // MANY)):
        if _once(lambda size=size: call(size)) > GROWING_SECONDS:  # type: ignore[misc]
            return _growth(call, size // TIMES)
    return _growth(call, n)


def _slow(call: Callable[[int], object]) -> str:
    for n in SMALL:
        if (took := _once(lambda n=n: call(n))) > SMALL_SECONDS and _once(  # type: ignore[misc]
            lambda n=n: call(n)  # type: ignore[misc]
        ) > SMALL_SECONDS:
            return f"{took:.3f} s already at n = {n}"
    if (took := _once(lambda: call(LARGE))) < FAST_SECONDS:
        return ""
    return _growth(call, LARGE if took < TIMES**2 * FAST_SECONDS else LARGE // TIMES)


def _growth(call: Callable[[int], object], n: int) -> str:
    """What grows too much, as a sentence; empty as soon as one trial is clearly linear.

    The least of each size is compared, and the sizes within one trial: what a busy machine adds
    to one trial is left out, and what a slower one adds to both sizes of it.
    """
    least = most = growth = float("inf")
    for trial in range(TRIALS):
        took, more = _once(lambda: call(n)), _once(lambda: call(TIMES * n))
        if more < CLEARLY_LINEAR * took:
            return ""
        least, most, growth = min(least, took), min(most, more), min(growth, more / took)
        if trial and most > CLEARLY_QUADRATIC * least:
            break
    if min(growth, most / least) < MOST_GROWTH:
        return ""
    return f"{least:.3f} s for {n:,} units, {most:.3f} s for {TIMES} times as many"


def _once(call: Callable[[], object]) -> float:
    """Seconds of one call, in time of this process alone.

    Without the garbage collector: it walks through all that the tests have imported, at moments
    that have nothing to do with the size of the text.
    """
    gc.disable()
    try:
        began = time.process_time()
        call()
        return time.process_time() - began
    finally:
        gc.enable()


def _caller(pattern: re.Pattern[Any], method: str) -> Callable[[str], object]:
    if method in {"sub", "subn"}:
        blank: Any = b"" if isinstance(pattern.pattern, bytes) else ""
        run: Callable[[Any], object] = lambda text: pattern.sub(blank, text)  # noqa: E731
    elif method == "finditer":
        run = lambda text: list(pattern.finditer(text))  # noqa: E731
    else:
        run = getattr(pattern, method)
    if isinstance(pattern.pattern, bytes):
        return lambda text: run(text.encode("latin-1", "replace"))
    return run


def _attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """(what leads up to a repetition, what it repeats), each once."""
    text = pattern.pattern
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    flags = pattern.flags & ~re.UNICODE
    parsed = parser.parse(text, flags)
    own = set(_repetitions(parsed, ""))
    marks = sorted(_marks(parsed))
    pairs = {one + other for one, other in permutations(marks, 2)} if len(marks) <= FEW else set()
    yield from sorted(own | {("", pump) for pump in pairs.union(ANYWAY)})


def _marks(items: Any) -> set[str]:
    """What opens, closes and escapes among the characters that the items name."""
    found: set[str] = set()
    for op, what in items:
        if op in {constants.LITERAL, constants.NOT_LITERAL}:
            found |= MARKS & {chr(what)}
        elif op is constants.IN:
            found |= _marks(what)
        elif op in REPEATS or op is constants.POSSESSIVE_REPEAT:
            found |= _marks(what[2])
        else:
            found = found.union(*(_marks(inner) for inner in _inside(op, what)))
    return found


def _repetitions(items: Any, before: str) -> Iterator[tuple[str, str]]:
    for op, what in items:
        if op in REPEATS or op is constants.POSSESSIVE_REPEAT:
            least, most, body = what
            if most > MANY:
                yield from ((before, pump) for pump in _texts(body) if pump)
            yield from _repetitions(body, before)
            before += "".join(list(_texts(body))[:1]) * min(least, MANY)
            continue
        for inner in _inside(op, what):
            yield from _repetitions(inner, before)
        before += _sample(op, what)


def _inside(op: Any, what: Any) -> list[Any]:
    if op is constants.SUBPATTERN:
        return [what[-1]]
    if op is constants.BRANCH:
        return list(what[1])
    if op in {constants.ASSERT, constants.ASSERT_NOT}:
        return [what[1]]
    return [what] if op is constants.ATOMIC_GROUP else []


def _texts(items: Any) -> Iterator[str]:
    """Texts that match the items: one for each alternative, and the first of each set's members."""
    found = [""]
    for op, what in items:
        if op is constants.BRANCH:
            found = [text + more for text in found for branch in what[1] for more in _texts(branch)]
        elif op is constants.SUBPATTERN or op is constants.ATOMIC_GROUP:
            inner = list(_texts(_inside(op, what)[0]))
            found = [text + more for text in found for more in inner]
        else:
            found = [text + _sample(op, what) for text in found]
    yield from found[:8]


def _sample(op: Any, what: Any) -> str:
    """A text that the item matches, as short as may be."""
    if op is constants.LITERAL:
        return chr(what)
    if op is constants.NOT_LITERAL or op is constants.ANY:
        return "b" if what == ord("a") else "a"
    if op is constants.IN:
        return _member(what)
    if op in REPEATS or op is constants.POSSESSIVE_REPEAT:
        least, most, body = what
        return "".join(list(_texts(body))[:1]) * (max(least, 1) if most else 0)
    if op in {constants.ASSERT, constants.ASSERT_NOT, constants.AT}:
        return ""
    inner = _inside(op, what)
    return "".join(list(_texts(inner[0]))[:1]) if inner else ""


def _member(members: Any) -> str:
    negated = members[0][0] is constants.NEGATE
    if negated:
        pattern = [(constants.IN, members)]
        for candidate in "a b0-!\n":
            compiled = parser.SubPattern(parser.State(), pattern)
            if re._compiler.compile(compiled, 0).match(candidate):  # type: ignore[attr-defined]
                return candidate
        return "\u00e9"
    op, what = members[0]
    if op is constants.LITERAL:
        return chr(what)
    return chr(what[0]) if op is constants.RANGE else SAMPLES.get(what, "a")
