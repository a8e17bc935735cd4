"""What a worker without the extra `registry` says of a schema."""

import sys

import pytest

from integration.formats.compiling import compiled
from integration.formats.schema import Registered, SchemaKind, UnusableSchemaError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("kind", "library", "room"),
    [
        (SchemaKind.AVRO, "fastavro", "integration.formats.avro"),
        (SchemaKind.PROTOBUF, "google.protobuf", "integration.formats.protobuf"),
    ],
)
def test_a_library_that_is_missing_is_named_with_what_brings_it(
    kind: SchemaKind, library: str, room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Python marks what cannot be imported.
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, room, raising=False)
    with pytest.raises(UnusableSchemaError, match=rf"{library}.* is not .*sluice\[registry\]"):
        compiled(Registered(id=1, kind=kind, text='"string"'))
