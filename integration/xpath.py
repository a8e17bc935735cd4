"""The part of XPath that key paths may use, rewritten so that names match local names.

    path       = ("/" | "//") step { ("/" | "//") step }        "//" once at most
    step       = ("." | "text()" | ["@"] (name | "*")) { "[" predicate "]" }
    predicate  = number | "last()" | condition { ("and" | "or") condition }
    condition  = relative [ ("=" | "!=") literal ] | "not(" relative [...] ")"
    relative   = child names joined by "/", the last one maybe "@name", "." or "text()"

Everything else (functions, other axes, variables, descents inside predicates) could take more
than linear time on a hostile document, or does not belong in a key.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""(//|/|\.\.|\.|@|\*|\[|\]|\(|\)|!=|=|"[^"]*"|'[^']*'|\d{1,9}|[^\W\d][\w.:-]*|\S)\s*+"""
)
_NAME: Final = re.compile(r"[^\W\d][\w.-]*")
_END: Final = ""


class XPathProblem(ValueError):  # noqa: N818 - the caller turns it into its own error
    """The path leaves the permitted part of XPath; the message says where."""


def without_namespaces(text: str) -> str:
    """Return the XPath with each name turned into a test of the local name.

    Raises XPathProblem.

    >>> without_namespaces("/Asset[2]/@id").startswith("/*[local-name()='Asset'][2]/@*[")
    True
    """
    return _Rewriter(text).path()


class _Rewriter:
    """Reads the grammar above from left to right, one method per rule."""

    def __init__(self, text: str) -> None:
        self._parts: list[str] = [*_TOKEN.findall(text.strip()), _END]
        self._at = 0

    def path(self) -> str:
        written: list[str] = []
        while (separator := self._take("/", "//")) is not None:
            if separator == "//" and "//" in written:
                raise XPathProblem("// may stand once")
            written += [separator, self._step()]
        self._need(_END)
        if not written:
            raise XPathProblem("it must begin with /")
        return "".join(written)

    def _step(self) -> str:
        written = self._node()
        while self._take("[") is not None:
            written += f"[{self._predicate()}]"
            self._need("]")
        return written

    def _node(self) -> str:
        if self._take(".") is not None:
            return "self::node()"
        if self._take("@") is not None:
            return _attribute(self._name())
        if self._here == "text" and self._after == "(":
            self._call("text")
            return "text()"
        return _element(self._name())

    def _predicate(self) -> str:
        if self._here.isdigit():
            return self._step_on()
        if self._here == "last" and self._after == "(":
            self._call("last")
            return "last()"
        written = self._condition()
        while (word := self._take("and", "or")) is not None:
            written += f" {word} {self._condition()}"
        return written

    def _condition(self) -> str:
        if self._here == "not" and self._after == "(":
            self._at += 2
            written = f"not({self._comparison()})"
            self._need(")")
            return written
        return self._comparison()

    def _comparison(self) -> str:
        written = self._node()
        while self._take("/") is not None:
            written += f"/{self._node()}"
        operator = self._take("=", "!=")
        if operator is None:
            return written
        literal = self._step_on()
        if not (literal.isdigit() or (literal[:1] in {"'", '"'} and len(literal) > 1)):
            raise XPathProblem(f"{literal or 'its end'!r} stands where a text should be")
        return f"{written}{operator}{literal}"

    def _name(self) -> str:
        name = self._step_on()
        if ":" in name:
            raise XPathProblem(f"{name!r} has a prefix; write the name alone, it matches any")
        if name != "*" and not _NAME.fullmatch(name):
            raise XPathProblem(f"{name or 'its end'!r} stands where a name should be")
        if self._here == "(":
            raise XPathProblem(f"the function {name} is not permitted")
        return name

    @property
    def _here(self) -> str:
        return self._parts[self._at]

    @property
    def _after(self) -> str:
        return self._parts[min(self._at + 1, len(self._parts) - 1)]

    def _step_on(self) -> str:
        token = self._here
        self._at = min(self._at + 1, len(self._parts) - 1)
        return token

    def _take(self, *expected: str) -> str | None:
        return self._step_on() if self._here in expected else None

    def _need(self, expected: str) -> None:
        if self._here != expected:
            actual = repr(self._here) if self._here else "its end"
            raise XPathProblem(f"{actual} stands where {expected or 'its end'} should be")
        self._step_on()

    def _call(self, name: str) -> None:
        for part in (name, "(", ")"):
            self._need(part)


def _element(name: str) -> str:
    return "*" if name == "*" else f"*[local-name()='{name}']"


def _attribute(name: str) -> str:
    if name == "*":
        return "@*"
    # An attribute without a prefix is meant first: beside `id`, `xml:id` is another thing.
    return f"@*[local-name()='{name}' and (namespace-uri()='' or not(../@{name}))]"
