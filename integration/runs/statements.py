"""The effect of an SQL text on transactions: read as PostgreSQL's lexer does, without asking it."""

import re
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final

# A comment's inner comments nest; what is quoted holds no word; $tag$ quotes up to the same tag.
_PART: Final = re.compile(
    r"""
      (?P<skipped>\s+ | --[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<end>;)
    | (?P<quoted>[eE]'(?:[^'\\]++|\\.|'')*'? | '(?:[^']++|'')*'? | "(?:[^"]++|"")*"?
        | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<word>[^\W\d][\w$]*)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_ALWAYS: Final = frozenset({"ABORT", "BEGIN", "COMMIT", "END"})
_WITH_NEXT: Final = frozenset({("PREPARE", "TRANSACTION"), ("START", "TRANSACTION")})
_NOISE: Final = frozenset({"WORK", "TRANSACTION"})
# As many words tell a statement: ROLLBACK TRANSACTION TO.
_TOLD_BY: Final = 3


def ends_transaction(sql: str) -> str:
    """The first command in the text that begins or ends a transaction; "" when there is none.

    Savepoints are none: RELEASE and ROLLBACK TO stay within their transaction.

    >>> ends_transaction("SELECT 'COMMIT'; /* now */ commit")
    'COMMIT'
    >>> ends_transaction("ROLLBACK TO SAVEPOINT a")
    ''
    """
    return next(filter(None, map(_control, _statements(sql))), "")


def _control(words: list[str]) -> str:
    verb = words[0]
    if verb in _ALWAYS:
        return verb
    if tuple(words[:2]) in _WITH_NEXT:
        return " ".join(words[:2])
    if verb == "ROLLBACK":
        behind = words[2:] if words[1:2] and words[1] in _NOISE else words[1:]
        return "" if behind[:1] == ["TO"] else verb
    return ""


def _statements(sql: str) -> Iterator[list[str]]:
    """The first words of every statement, in capitals; "" stands for what is no word."""
    for is_end, parts in groupby(_parts(sql), key=lambda part: part == ";"):
        if not is_end:
            yield [part.upper() for part in islice(parts, _TOLD_BY)]


def _parts(sql: str) -> Iterator[str]:
    place = 0
    while part := _PART.match(sql, place):
        place = part.end()
        if part["comment"]:
            place = _behind_comment(sql, place)
        elif part["end"] or part["word"]:
            yield part[0]
        elif not part["skipped"]:
            yield ""


def _behind_comment(sql: str, place: int) -> int:
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(sql, place)
        if edge is None:
            return len(sql)
        depth += 1 if edge[0] == "/*" else -1
        place = edge.end()
    return place
