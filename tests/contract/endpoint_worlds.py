"""One world for each endpoint type: how it is opened, made to fail, and what arrived in it."""

import json
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from psycopg.conninfo import make_conninfo

from integration.endpoint_types.database.endpoint import DatabaseEndpoint
from integration.endpoint_types.file.endpoint import FileEndpoint
from integration.endpoint_types.file.properties import FileProperties
from integration.endpoint_types.opening import opened
from integration.endpoints.port import (
    Answer,
    Deliverer,
    Later,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from integration.endpoints.properties import read
from integration.endpoints.registry import endpoint_function
from integration.handlers import outage, permanent, transient
from integration.models import Endpoint
from tests.support.http_partner import HttpPartner
from tests.support.memory.endpoint import MemoryDeliverer, Shelf


def an_outbound_message(message_id: str, **fields: Any) -> OutboundMessage:
    known: dict[str, Any] = {
        "interface": "ORDERS",
        "system": "EAM",
        "body": json.dumps({"order": {"number": message_id, "lines": 3}}).encode(),
        "content_type": "application/json",
        "key": "k1",
    }
    return OutboundMessage(message_id=message_id, **(known | fields))


def an_endpoint(endpoint_type: str, properties: dict[str, Any], **secrets: str) -> Endpoint:
    return Endpoint(
        name="e", endpoint_type=endpoint_type, properties=properties, secrets=json.dumps(secrets)
    )


class EndpointWorld(ABC):
    """`never` are the endings that cannot happen here."""

    never: frozenset[type[Answer]] = frozenset()
    never_breaks = False
    never_endless = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Deliverer] = []

    def open(self) -> Deliverer:
        self._opened.append(self.make())
        return self._opened[-1]

    @abstractmethod
    def make(self) -> Deliverer:
        """The endpoint of this world, opened anew."""

    def message(self, message_id: str) -> OutboundMessage:
        return an_outbound_message(message_id)

    @abstractmethod
    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        """A message that will end so, with the world made ready for it."""

    def mend(self) -> None:  # noqa: B027 - most worlds have nothing to undo
        """Undo what `spoiled` did to the world."""

    def breaks(self) -> bool:
        """Let nothing be reached any more; False where that cannot be."""
        return False

    def endless(self, message_id: str) -> OutboundMessage | None:
        """A message that the other side never ends."""
        return None

    @abstractmethod
    def arrived(self) -> list[str]:
        """The ids of what the other side has, in the order in which it came."""

    def close(self) -> None:
        for one in self._opened:
            one.close()


class MemoryWorld(EndpointWorld):
    never_breaks = never_endless = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shelf = Shelf()

    def make(self) -> Deliverer:
        return MemoryDeliverer(self.shelf, self._answer, at_once=3)

    def _answer(self, message: OutboundMessage) -> Answer | None:
        known: dict[str, Answer] = {
            kind.__name__: kind(code="SCRIPT", text="As the script says.")
            for kind in (Refused, Later, Unreachable, Unknown)
        }
        return known.get(message.interface)

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        return an_outbound_message(message_id, interface=ending.__name__)

    def arrived(self) -> list[str]:
        return self.shelf.ids


class HttpWorld(EndpointWorld):
    WORDS = {Refused: "status-422", Later: "status-500", Unreachable: "status-503"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.partner = HttpPartner()
        self.port = self.partner.port

    def make(self) -> Deliverer:
        properties = {
            "url": f"http://127.0.0.1:{self.port}/{{interface}}",
            "private_network": True,
            "total_seconds": 3,
            "connect_seconds": 3,
        }
        return opened(an_endpoint("http", properties))

    def message(self, message_id: str) -> OutboundMessage:
        return an_outbound_message(message_id, interface="take")

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        return an_outbound_message(message_id, interface=self.WORDS.get(ending, "reset"))

    def breaks(self) -> bool:
        gone = HttpPartner()
        gone.close()
        self.port = gone.port
        return True

    def endless(self, message_id: str) -> OutboundMessage | None:
        return an_outbound_message(message_id, interface="hang")

    def arrived(self) -> list[str]:
        return self.partner.ids

    def close(self) -> None:
        super().close()
        self.partner.close()


class FileWorld(EndpointWorld):
    never = frozenset({Later, Unknown})
    never_endless = True

    def make(self) -> Deliverer:
        properties = {
            "folder": "out",
            "file_name": "{$.order.number}.json",
            "format": "json",
            "at_once": 3,
        }
        found = read("file", properties, {})
        assert isinstance(found, FileProperties)
        return FileEndpoint(found, self.folder)

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        if ending is Refused:
            return an_outbound_message(message_id, body=b"<xml/>")
        if ending is Unreachable:
            self.breaks()
            return an_outbound_message(message_id)
        return None

    def breaks(self) -> bool:
        (self.folder / "out").write_text("a file where the folder should be")
        return True

    def mend(self) -> None:
        if (self.folder / "out").is_file():
            (self.folder / "out").unlink()

    def arrived(self) -> list[str]:
        out = self.folder / "out"
        files = sorted(out.iterdir()) if out.is_dir() else []
        rows = [row for file in files for row in json.loads(file.read_bytes())]
        return [row["order"]["number"] for row in rows]


class DatabaseWorld(EndpointWorld):
    never = frozenset({Unknown})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.admin = psycopg.connect(self.address(), autocommit=True)
        self.admin.execute("DROP SCHEMA IF EXISTS target CASCADE")
        self.admin.execute("CREATE SCHEMA target")
        self.admin.execute(
            "CREATE TABLE target.orders (number text PRIMARY KEY, lines integer NOT NULL)"
        )
        self.admin.execute("CREATE TABLE target.sluice_delivered (message_id text PRIMARY KEY)")
        self.holder: Any = None

    @staticmethod
    def parts() -> dict[str, Any]:
        known = settings.DATABASES["default"]
        return {
            "host": known["HOST"],
            "port": int(known["PORT"]),
            "username": known["USER"],
            "private_network": True,
        }

    @classmethod
    def address(cls) -> str:
        known, parts = settings.DATABASES["default"], cls.parts()
        return make_conninfo(
            host=parts["host"],
            port=parts["port"],
            user=parts["username"],
            password=known["PASSWORD"] or None,
            dbname="postgres",
        )

    def make(self) -> Deliverer:
        properties = {
            **self.parts(),
            "database": "postgres",
            "schema": "target",
            "table": "orders",
            "columns": {"number": "{$.order.number}", "lines": "{$.order.lines}"},
            "at_once": 3,
            "statement_seconds": 2,
        }
        found = opened(
            an_endpoint("database", properties, password=settings.DATABASES["default"]["PASSWORD"])
        )
        assert isinstance(found, DatabaseEndpoint)
        return found

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        if ending is Refused:
            return an_outbound_message(message_id, body=b'{"order": {"number": "x"}}')
        if ending is Later:
            return self.endless(message_id)
        if ending is Unreachable:
            self.breaks()
            return an_outbound_message(message_id)
        return None

    def breaks(self) -> bool:
        self.admin.execute("ALTER TABLE target.orders RENAME COLUMN lines TO rows")
        return True

    def endless(self, message_id: str) -> OutboundMessage | None:
        """Somebody else writes the same key and does not commit."""
        self.holder = psycopg.connect(self.address())
        self.holder.execute("INSERT INTO target.orders VALUES (%s, 1)", [message_id])
        return an_outbound_message(message_id)

    def mend(self) -> None:
        if self.holder is not None:
            self.holder.close()
            self.holder = None
        columns = self.admin.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'target'"
        ).fetchall()
        if ("rows",) in columns:
            self.admin.execute("ALTER TABLE target.orders RENAME COLUMN rows TO lines")

    def arrived(self) -> list[str]:
        found = self.admin.execute("SELECT number FROM target.orders ORDER BY number").fetchall()
        return [row[0] for row in found]

    def close(self) -> None:
        super().close()
        if self.holder is not None:
            self.holder.close()
        self.admin.execute("DROP SCHEMA target CASCADE")
        self.admin.close()


class PythonWorld(EndpointWorld):
    """Its function looks into whichever world was made last."""

    last: "PythonWorld | None" = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shelf = Shelf()
        self.name = "tests.contract"
        self.leaving = threading.Event()
        PythonWorld.last = self

    def make(self) -> Deliverer:
        properties = {"function": self.name, "total_seconds": 2}
        return opened(an_endpoint("python", properties))

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        return an_outbound_message(message_id, interface=ending.__name__)

    def breaks(self) -> bool:
        self.name = "tests.nobody"
        return True

    def endless(self, message_id: str) -> OutboundMessage | None:
        return an_outbound_message(message_id, interface="endless")

    def arrived(self) -> list[str]:
        return self.shelf.ids

    def close(self) -> None:
        super().close()
        self.leaving.set()


@endpoint_function("tests.contract")
def take(message: OutboundMessage) -> object:
    """Takes a message as the world of the moment says."""
    world = PythonWorld.last
    assert world is not None
    match message.interface:
        case "Refused":
            return permanent("This one never.")
        case "Later":
            return transient("Not now.")
        case "Unreachable":
            return outage("The other side is down.")
        case "Unknown" | "endless":
            world.leaving.wait(20)
        case _:
            world.shelf.put([message])
    return None
