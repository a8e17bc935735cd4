"""The source text of a Protobuf schema, made into the description that the library takes.

As much of the language as says how messages are written: syntax 2 and 3, messages, enums, maps and
oneofs. Options, services, extensions and defaults say nothing about that, and are passed over;
groups and editions are refused.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from integration.formats.schema import UnusableSchemaError

_TOKEN: Final = re.compile(
    r"\s++|//[^\n]*+|(?s:/\*.*?\*/)"
    r"|(\"(?:[^\"\\\n]++|\\.)*\"|'(?:[^'\\\n]++|\\.)*'|\.?[A-Za-z_][\w.]*+|-?\.?\d[\w.+]*+|[^\s\w])",
    re.ASCII,
)
_SCALARS: Final = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "fixed64": FieldDescriptorProto.TYPE_FIXED64,
    "fixed32": FieldDescriptorProto.TYPE_FIXED32,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "sfixed32": FieldDescriptorProto.TYPE_SFIXED32,
    "sfixed64": FieldDescriptorProto.TYPE_SFIXED64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "sint64": FieldDescriptorProto.TYPE_SINT64,
}
_LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_CLOSING: Final = {"{": "}", "[": "]", "(": ")", "<": ">"}
_DEEPEST: Final = 30


def file_of_source(text: str, name: str) -> FileDescriptorProto:
    """Return the description of a source text. Raises UnusableSchemaError."""
    try:
        return _Source(text, name).file()
    except (IndexError, ValueError) as e:
        raise UnusableSchemaError(
            f"it is no Protobuf schema ({str(e) or 'it stops short'})."
        ) from e


class _Source:
    """The words of a text, read from the left; IndexError tells of an end that comes too soon."""

    def __init__(self, text: str, name: str) -> None:
        self._words = list(_words(text))
        self._at = 0
        self._file = FileDescriptorProto(name=name, syntax="proto2")
        self._depth = 0

    def file(self) -> FileDescriptorProto:
        statements: dict[str, Callable[[], None]] = {
            "syntax": self._syntax,
            "package": self._package,
            "import": self._import,
            "message": lambda: self._message(self._file.message_type.add()),
            "enum": lambda: self._enum(self._file.enum_type.add()),
        }
        while self._at < len(self._words):
            self._statement(statements)
        return self._file

    def _statement(self, statements: dict[str, Callable[[], None]]) -> None:
        word = self._next()
        if word == "edition":
            raise UnusableSchemaError("it is written in an edition; syntax 2 and 3 are read.")
        if word in statements:
            statements[word]()
        elif word in {"option", "service", "extend"}:
            self._pass_over()
        elif word != ";":
            raise ValueError(f"a statement begins with {word[:40]}")

    def _syntax(self) -> None:
        self._expect("=")
        self._file.syntax = _unquoted(self._next())
        if self._file.syntax not in {"proto2", "proto3"}:
            raise ValueError("its syntax is neither proto2 nor proto3")
        self._expect(";")

    def _package(self) -> None:
        self._file.package = self._next()
        self._expect(";")

    def _import(self) -> None:
        word = self._next()
        if word in {"public", "weak"}:
            word = self._next()
        self._file.dependency.append(_unquoted(word))
        self._expect(";")

    def _message(self, message: DescriptorProto) -> None:
        message.name = self._name()
        self._expect("{")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("its messages nest too deeply")
        while (word := self._next()) != "}":
            self._member(message, word)
        self._depth -= 1
        _put_last_what_is_made_up(message)

    def _member(self, message: DescriptorProto, word: str) -> None:
        # A field may have a type of any name, and only what follows tells the two apart.
        if word == "message":
            self._message(message.nested_type.add())
        elif word == "enum":
            self._enum(message.enum_type.add())
        elif word == "oneof":
            self._oneof(message)
        elif word in {"option", "reserved", "extensions", "extend"}:
            self._pass_over()
        elif word == "map" and self._words[self._at] == "<":
            self._map(message)
        elif word != ";":
            self._field(message, word)

    def _field(self, message: DescriptorProto, word: str, oneof: int | None = None) -> None:
        label = _LABELS.get(word) if oneof is None else None
        kind = word if label is None else self._next()
        if kind == "group":
            raise UnusableSchemaError("it has a group, which is not read.")
        field = message.field.add(label=label or FieldDescriptorProto.LABEL_OPTIONAL)
        _set_type(field, kind)
        self._named_and_numbered(field)
        if oneof is not None:
            field.oneof_index = oneof
        elif word == "optional" and self._file.syntax == "proto3":
            field.proto3_optional = True

    def _oneof(self, message: DescriptorProto) -> None:
        place = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._pass_over()
            elif word != ";":
                self._field(message, word, place)

    def _map(self, message: DescriptorProto) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field = message.field.add(label=FieldDescriptorProto.LABEL_REPEATED)
        self._named_and_numbered(field)
        entry = message.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            one = entry.field.add(
                name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL
            )
            _set_type(one, kind)
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, entry.name

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._name()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                is_alias = self._words[self._at : self._at + 3] == ["allow_alias", "=", "true"]
                enum.options.allow_alias = enum.options.allow_alias or is_alias
                self._pass_over()
            elif word == "reserved":
                self._pass_over()
            elif word != ";":
                self._expect("=")
                enum.value.add(name=word, number=int(self._next(), 0))
                self._pass_over()

    def _named_and_numbered(self, field: FieldDescriptorProto) -> None:
        field.name = self._name()
        self._expect("=")
        field.number = int(self._next(), 0)
        self._pass_over()

    def _pass_over(self) -> None:
        """Go behind the statement: its semicolon, or the end of its block."""
        open_: list[str] = []
        while True:
            word = self._next()
            if word in _CLOSING and word != "<":
                open_.append(_CLOSING[word])
            elif open_ and word == open_[-1]:
                open_.pop()
                if not open_ and word == "}":
                    return
            elif word == ";" and not open_:
                return

    def _next(self) -> str:
        word = self._words[self._at]
        self._at += 1
        return word

    def _name(self) -> str:
        word = self._next()
        if not word.isidentifier():
            raise ValueError(f"{word[:40]} is no name")
        return word

    def _expect(self, wanted: str) -> None:
        word = self._next()
        if word != wanted:
            raise ValueError(f"{wanted} is missing before {word[:40]}")


def _words(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{text[at : at + 20]!r} means nothing")
        at = found.end()
        if found[1]:
            yield found[1]


def _unquoted(word: str) -> str:
    if word[:1] not in {'"', "'"}:
        raise ValueError(f"{word[:40]} is no quoted text")
    return word[1:-1]


def _set_type(field: FieldDescriptorProto, kind: str) -> None:
    """A scalar, or a name that the library looks up from where the field stands."""
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind.lstrip(".").replace(".", "_").isidentifier():
        field.type_name = kind
    else:
        raise ValueError(f"{kind[:40]} is no type")


def _entry_name(field: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _put_last_what_is_made_up(message: DescriptorProto) -> None:
    """Oneofs of `optional`, as the library demands; map entries, which senders do not count."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
    nested = sorted(message.nested_type, key=lambda inner: inner.options.map_entry)
    copies = [DescriptorProto.FromString(inner.SerializeToString()) for inner in nested]
    del message.nested_type[:]
    message.nested_type.extend(copies)
