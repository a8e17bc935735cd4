"""The files of a Protobuf schema: from the registry's answer to descriptors of its messages."""

import base64
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from integration.formats.proto_source import file_of_source
from integration.formats.schema import Registered, UnusableSchemaError

_OWN: Final = "schema.proto"
# Where the files of these packages stand in Python, for schemas that import them.
_CARRIED: Final[Mapping[str, str]] = {
    "google/protobuf/": "google.protobuf",
    "google/type/": "google.type",
}


@dataclass(frozen=True, slots=True)
class PoolOfSchema:
    """The types of one schema; `top` are the messages of its own file, in order."""

    pool: DescriptorPool
    top: list[Descriptor]


def pool_of(registered: Registered) -> PoolOfSchema:
    """Return the schema's types. Raises UnusableSchemaError."""
    pool, known = DescriptorPool(), set[str]()
    try:
        for name, text in registered.references:
            _add(pool, file_of(text, name), known)
        own = file_of(registered.text, _OWN)
        _add(pool, own, known)
        described = pool.FindFileByName(own.name)
    except (TypeError, KeyError, ValueError) as e:
        raise UnusableSchemaError(f"its types do not fit together ({e}).") from e
    top = [described.message_types_by_name[message.name] for message in own.message_type]
    if not top:
        raise UnusableSchemaError("it has no message.")
    return PoolOfSchema(pool, top)


def file_of(text: str, name: str) -> FileDescriptorProto:
    """Return a file from its source, or as serialized. Raises UnusableSchemaError.

    Some serializers register the serialized form, and some registries hand over no other.
    """
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return file_of_source(text, name)
    file.name = name
    return file


def _add(pool: DescriptorPool, file: FileDescriptorProto, known: set[str]) -> None:
    for dependency in file.dependency:
        if dependency not in known:
            _add_carried(pool, dependency, known)
    pool.Add(file)
    known.add(file.name)


def _add_carried(pool: DescriptorPool, name: str, known: set[str]) -> None:
    """Add a file that every installation has."""
    for folder, package in _CARRIED.items():
        if name.startswith(folder):
            stem = name.removeprefix(folder).removesuffix(".proto")
            if not stem.isidentifier():
                break
            try:
                module = importlib.import_module(f"{package}.{stem}_pb2")
            except ImportError:
                break
            file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
            _add(pool, file, known)
            return
    raise UnusableSchemaError(f"it imports {name[:100]}, which the registry does not refer to.")
