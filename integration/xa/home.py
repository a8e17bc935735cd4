"""Where the branches of a connection factory are looked for, and whether that is still so."""

from dataclasses import dataclass
from typing import Final

from integration.models import ConnectionFactory
from integration.store.sessions import fetch_all

# The settings by which branches and decisions are found, and the columns of these.
LEADING: Final = {
    "name": "name",
    "provider": "provider_id",
    "xa": "xa",
    "xa_side_topic": "xa_side_topic",
    "xa_log_topic": "xa_log_topic",
}
# Who changes or deletes a factory locks its row FOR UPDATE first, and waits for this. A log notes
# in the row what it has seen, by a session of its own, and must not wait: hence not FOR SHARE.
_STORED: Final = """
SELECT name, provider_id, xa, xa_side_topic, xa_log_topic FROM integration_connectionfactory
WHERE id = %s FOR KEY SHARE"""


@dataclass(frozen=True, slots=True)
class Home:
    """What leads to the branches of a factory, as its settings were when they were read."""

    factory_id: int
    name: str
    settings: tuple[object, ...]

    @classmethod
    def of(cls, row: ConnectionFactory) -> "Home":
        settings = tuple(getattr(row, column) for column in LEADING.values())
        return cls(row.pk, row.name, settings)

    def is_kept(self) -> bool:
        """Return whether the stored settings still are these. Raises DatabaseError.

        If they are, they stay so until the transaction of our database that is open has ended.
        """
        return fetch_all(_STORED, [self.factory_id]) == [self.settings]
