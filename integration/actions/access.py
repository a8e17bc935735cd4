"""Acts of people that change nothing: logins, refusals and views, as rows of audit."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from django.db import connection
from psycopg.types.json import Jsonb

from integration.plain import plain

LONGEST_ACTOR: Final = 150
LONGEST_NAME: Final = 200
LONGEST_REASON: Final = 500
# A name typed at a failed login: nobody's is longer, and what is may be a password.
LONGEST_TYPED: Final = 60


class Act(StrEnum):
    """The act; the values stand in the table."""

    LOGIN = "login"
    LOGIN_FAILED = "login-failed"
    LOGIN_REFUSED = "login-refused"
    LOGOUT = "logout"
    REFUSE = "refuse"
    VIEW = "view"
    DOWNLOAD = "download"
    REVEAL = "reveal"


@dataclass(frozen=True, slots=True)
class Bound:
    """The number of rows an act may leave: None = no bound.

    The same person at the same address, subject and name leave one row in `same_seconds`; a person
    leaves `a_minute`, and one more that says so. Whoever is not logged in counts as one person.
    """

    same_seconds: int = 0
    a_minute: int | None = None


# Nobody who hammers an address may fill the table, nor use the bound up and go on unnoticed.
BOUNDS: Final[Mapping[Act, Bound]] = MappingProxyType(
    {
        Act.LOGIN: Bound(),
        Act.LOGIN_FAILED: Bound(a_minute=60),
        Act.LOGIN_REFUSED: Bound(same_seconds=60, a_minute=60),
        Act.LOGOUT: Bound(),
        Act.REFUSE: Bound(same_seconds=60, a_minute=30),
        # Pages are looked at again and again, and refresh by themselves.
        Act.VIEW: Bound(same_seconds=300),
        Act.DOWNLOAD: Bound(same_seconds=300),
        # Each has its reason.
        Act.REVEAL: Bound(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access. `actor` is empty where nobody was logged in; `kind` and `subject` as in a change.

    Texts may come from strangers: they are stored cut, with their control characters spelt out.
    """

    act: Act
    actor: str
    kind: str
    subject: str = ""
    name: str = ""
    reason: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


# The subject of the row for all beyond the bound; what is bounded has none: nobody can type it.
MORE: Final = "more"
# One statement of its own: no page waits for more, and none is shown from within a transaction.
# Two at the same moment may both be stored.
NOTE: Final = """
    INSERT INTO integration_configurationchange
        (at, actor, action, kind, subject, name, after, reason, is_access)
    SELECT clock_timestamp(), %(actor)s::text, %(act)s::text, %(kind)s::text,
        CASE WHEN is_beyond THEN %(more)s::text ELSE %(subject)s::text END,
        CASE WHEN is_beyond THEN %(more_name)s::text ELSE %(name)s::text END, %(facts)s::jsonb,
        CASE WHEN is_beyond THEN %(more_reason)s::text ELSE %(reason)s::text END, true
    FROM (SELECT %(most)s::int IS NOT NULL AND %(most)s::int <= (
        SELECT count(*) FROM integration_configurationchange
        WHERE actor = %(actor)s::text AND action = %(act)s::text AND subject <> %(more)s::text
            AND at > statement_timestamp() - interval '1 minute') AS is_beyond) bound
    WHERE NOT EXISTS (
        SELECT FROM integration_configurationchange
        WHERE actor = %(actor)s::text AND action = %(act)s::text AND kind = %(kind)s::text
            AND subject = %(subject)s::text AND name = %(name)s::text
            AND after = %(facts)s::jsonb
            AND at > statement_timestamp() - make_interval(secs => %(same)s::int))
    AND NOT (is_beyond AND EXISTS (
        SELECT FROM integration_configurationchange
        WHERE actor = %(actor)s::text AND action = %(act)s::text AND subject = %(more)s::text
            AND at > statement_timestamp() - interval '1 minute'))"""


def note(access: Access) -> None:
    """Store it, unless it is a repetition that BOUNDS leaves out, or told of by its row of more."""
    bound = BOUNDS[access.act]
    name = plain(access.name)[:LONGEST_NAME]
    values = {
        **asdict(access),
        "actor": plain(access.actor)[:LONGEST_ACTOR],
        "subject": plain(access.subject)[:40],
        "name": name,
        "reason": plain(access.reason)[:LONGEST_REASON],
        "facts": Jsonb({key: plain(text)[:LONGEST_NAME] for key, text in access.facts.items()}),
        "same": bound.same_seconds,
        "most": bound.a_minute,
        "more": MORE,
        "more_name": f"more than {bound.a_minute} within a minute",
        "more_reason": f"Others of the same minute are not listed. The first of them: {name}",
    }
    with connection.cursor() as cursor:
        cursor.execute(NOTE, values)
