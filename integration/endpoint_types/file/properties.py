"""The properties of an endpoint that writes files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from integration.endpoint_types import checks
from integration.endpoints.declared import FIELDS, Properties, Shape, at_once, declare, part


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProperties(Properties):
    """A file for each message, or for some of them."""

    label: ClassVar[str] = "File"
    about: ClassVar[str] = "Files in a folder, one message or many in each: JSON, XML or columns."
    repeats: ClassVar[str] = (
        "A file endpoint does it by itself while the file is where it was put. If several messages "
        "share a file and its name has fields, only sequential queues send again; others put on "
        "hold."
    )
    drops_repeats: ClassVar[bool] = True
    shared_folder: ClassVar[str] = "folder"
    parts = (
        part("File", "folder file_name at_once"),
        part("Content", "format root columns separator heading"),
    )

    @classmethod
    def depends_on_company(cls, values: Mapping[str, Any]) -> bool:
        """The first message names the file, and after a crash another one may be the first."""
        return values.get("at_once", 1) != 1 and "{" in str(values.get("file_name", ""))

    folder: str = declare(
        "Folder",
        help="Below the base folder of this installation (SLUICE_FILES_ROOT); made when it "
        "is not there. Empty: the base folder itself.",
        check=checks.folder,
    )
    file_name: str = declare(
        "File name",
        shape=Shape.TEMPLATE,
        help=f"With {FIELDS}; {{message_id}} in it makes each file another one. An existing "
        "file is never overwritten. With several messages in a file, the first names it.",
        is_needed=True,
    )
    format: str = declare(
        "Format",
        "raw",
        shape=Shape.CHOICE,
        help="What a file holds.",
        choices=(
            ("raw", "The payload as it is"),
            ("json", "JSON, several as an array"),
            ("xml", "XML, several below one root"),
            ("flat", "Columns, a line for each message"),
        ),
    )
    at_once: int = at_once("How many messages a file may hold. It is written with those that wait.")
    root: str = declare(
        "Root element",
        "messages",
        help="Of a file with several XML documents.",
        only=("format", ("xml",)),
        check=checks.identifier,
    )
    columns: Mapping[str, str] = declare(
        "Columns",
        {},
        shape=Shape.PAIRS,
        help="One HEADING = FIELD a line, for example number = {$.order.number}. What a "
        "message does not have stays empty.",
        is_needed=True,
        only=("format", ("flat",)),
    )
    separator: str = declare(
        "Separator",
        ";",
        shape=Shape.CHOICE,
        help="Values that hold it are quoted.",
        choices=((";", "; semicolon"), (",", ", comma"), ("tab", "tab"), ("|", "| bar")),
        only=("format", ("flat",)),
    )
    heading: bool = declare(
        "First line with headings",
        True,
        shape=Shape.FLAG,
        help="Off: values only.",
        only=("format", ("flat",)),
    )
