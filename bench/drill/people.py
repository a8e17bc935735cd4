"""Eight people try every address of the console, most of them without the right to it.

Each asks each address by GET, and sends forms to it that the console did not make, with foreign
queues, failures and numbers. Nothing may change by that and nothing may break, and the audit has
to know of it.
"""

import http.cookiejar
import json
import re
import secrets
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.drill.ground import Ground

MARK: Final = "DRILL "
TIMEOUT_SECONDS: Final = 60
LIMIT_SECONDS: Final = 300
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
# The answers of an address to whom it is closed; 302 leads to the login.
CLOSED: Final = frozenset({302, 403, 404, 405})
# Lists where a form without a single row's number chooses all that match.
CHOOSING: Final = frozenset({"review", "review-outbox"})
OUTBOX: Final = frozenset({"review-outbox", "decide-many"})
WANTED_ACTS: Final = ("login-failed", "refuse", "view", "download")
_TOKEN: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_ACTED: Final = """
SELECT format('SELECT %%L, count(*) FROM %%I WHERE %%I = ANY(%%%%s)%%s', table_name, table_name,
    column_name, CASE WHEN table_name = 'integration_configurationchange'
    THEN ' AND NOT is_access' ELSE '' END)
FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = ANY(%s) ORDER BY table_name, column_name
"""
_OTHERS: Final = """
SELECT DISTINCT kind FROM integration_configurationchange
WHERE NOT is_access AND at >= %s AND actor <> %s
"""
_KEY: Final = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
    AND a.attnum = ANY(i.indkey) WHERE i.indrelid = %s::regclass AND i.indisprimary
"""
_ACTS: Final = """
SELECT action, count(*) FROM integration_configurationchange
WHERE is_access AND actor LIKE %(names)s OR is_access AND name LIKE %(names)s GROUP BY action
"""

# By table and key: a digest, and whether a crafted form's name is in the row.
Fingerprints = dict[str, dict[str, tuple[str, bool]]]


class _Here(urllib.request.HTTPRedirectHandler):
    """An answer that leads elsewhere is an answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Visitor:
    """One browser session that tells statuses."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.token = ""
        jar = http.cookiejar.CookieJar()
        self._browser = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(jar), _Here()
        )

    def log_in(self, name: str, password: str) -> bool:
        """By the form, as people do; returns whether the console let them in."""
        self._keep_token(self.get("login/")[1])
        fields = {"username": name, "password": password, "next": "/account/"}
        status, _ = self.post("login/", fields)
        # Each login brings a token of its own.
        self._keep_token(self.get("account/")[1])
        return status == 302

    def get(self, path: str) -> tuple[int, str]:
        return self._answer(urllib.request.Request(f"{self.address}{path}"))  # noqa: S310 - our own

    def post(self, path: str, fields: Mapping[str, object], kind: str = FORM) -> tuple[int, str]:
        form = {**fields, "csrfmiddlewaretoken": self.token}
        text = json.dumps(form) if kind == JSON else urllib.parse.urlencode(form, doseq=True)
        headers = {
            "Content-Type": kind,
            "X-CSRFToken": self.token,
            "Referer": f"{self.address}{path}",
        }
        request = urllib.request.Request(  # noqa: S310 - our own http address
            f"{self.address}{path}", data=text.encode(), headers=headers
        )
        return self._answer(request)

    def _answer(self, request: urllib.request.Request) -> tuple[int, str]:
        """Status and text; 0 when there was no answer."""
        try:
            with self._browser.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode(errors="replace")
        except OSError:
            return 0, ""

    def _keep_token(self, page: str) -> None:
        if found := _TOKEN.search(page):
            self.token = found[1]


@dataclass(frozen=True)
class World:
    """What `addresses.make` told of."""

    people: list[dict[str, Any]]
    failure: str
    addresses: list[dict[str, Any]]
    form: dict[str, Any]
    foreign: list[str]
    tables: list[str]
    not_by_people: list[str]


@dataclass(frozen=True)
class Asked:
    """One request: by whom, for what, and how."""

    person: dict[str, Any]
    address: dict[str, Any]
    said: str

    def __str__(self) -> str:
        address = self.address
        return f"{self.said} {address['name']} ({address['path']}) by {self.person['name']}"


@dataclass
class Findings:
    """What was asked, and everything that should not be."""

    requests: int = 0
    refused: int = 0
    let_in: list[str] = field(default_factory=list)
    server_errors: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    people: Counter[str] = field(default_factory=Counter)


def drill(ground: Ground) -> dict[str, Any]:
    """Carry it out on the running stack; what it made is removed, the audit of it stays."""
    began, password = time.monotonic(), secrets.token_urlsafe(16)
    try:
        world = World(**_asked(ground, "make", ground.suffix, password))
        found = Findings()
        before = _failure(ground, world.failure)
        # Once: whoever fails more often is soon let in no more, from this address.
        Visitor(ground.address).log_in(world.people[0]["name"], "not the password")
        for person in world.people:
            _try_all(ground, world, person, password, found)
            if time.monotonic() - began > LIMIT_SECONDS:
                found.server_errors.append(f"not over after {LIMIT_SECONDS} s")
                break
        if _failure(ground, world.failure) != before:
            found.changes.append(f"the failure {world.failure}")
        acts = _acts(ground)
    finally:
        _asked(ground, "clear", ground.suffix)
    return _told(found, acts, len(world.addresses), time.monotonic() - began)


def _told(
    found: Findings, acts: Mapping[str, int], addresses: int, seconds: float
) -> dict[str, Any]:
    wrong = [*found.server_errors, *found.let_in, *found.leaks, *found.changes]
    return {
        "ok": not wrong and all(acts.get(act) for act in WANTED_ACTS),
        "people": len(found.people),
        "addresses": addresses,
        "requests": found.requests,
        "refused": found.refused,
        "server_errors": len(found.server_errors),
        "let_in": len(found.let_in),
        "leaks": len(found.leaks),
        "changes_beyond_a_right": len(found.changes),
        "audit": {act: acts.get(act, 0) for act in WANTED_ACTS},
        "wrong": wrong[:50],
        "seconds": round(seconds, 1),
    }


def _try_all(
    ground: Ground, world: World, person: dict[str, Any], password: str, found: Findings
) -> None:
    """One person asks for everything; the fingerprints before and after have to be the same."""
    name, visitor = person["name"], Visitor(ground.address)
    began = ground.value("SELECT clock_timestamp()")
    before = _fingerprints(ground, world)
    if not visitor.log_in(name, password):
        found.server_errors.append(f"{name} is not let in")
        return
    for address in world.addresses:
        for said, (status, text) in _asks(visitor, world, person, address):
            asked = Asked(person, address, said)
            _judge(found, asked, status)
            if person["limited"] and status != 404:
                _look_for_leaks(found, asked, text, world.foreign)
    visitor.post("logout/", {})
    after = _fingerprints(ground, world)
    others = {kind for (kind,) in ground.rows(_OTHERS, [began, name])}
    for table, key in _changes(before, after):
        if _kind(table) not in others:
            found.changes.append(f"{table} {key} while {name} asked")
    found.changes += [f"{what} by {name}" for what in _acted(ground, name)]


def _asks(
    visitor: Visitor, world: World, person: dict[str, Any], address: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, str]]]:
    """The requests for one address; none sends what the person has the right and the reach to.

    A viewer has the right to no change: whatever this one sends has to be without effect.
    """
    path = address["path"]
    yield "GET", visitor.get(path)
    may_act = not person["limited"] and set(person["rights"]) - {"VIEW"}
    if may_act and not _lacks(person, address):
        return
    form = world.form
    if address["name"] in OUTBOX:
        form = {**form, "chosen": form["outbox_chosen"], "verb": "give-up"}
    yield "POST", visitor.post(path, form)
    yield "POST of JSON", visitor.post(path, form, JSON)
    if address["name"] in CHOOSING:
        for verb in ("edit", "delete", "give-up"):
            every = {**form, "verb": verb, "scope": "matching", "chosen": ""}
            yield f"POST of {verb}", visitor.post(path, every)


def _judge(found: Findings, asked: Asked, status: int) -> None:
    found.requests += 1
    found.people[asked.person["name"]] += 1
    if not status or status >= 500:
        found.server_errors.append(f"{asked}: {status}")
    is_closed = status in CLOSED
    if _lacks(asked.person, asked.address) and not is_closed:
        found.let_in.append(f"{asked}: {status}")
    found.refused += status == 403 or (is_closed and asked.said != "GET")


def _look_for_leaks(found: Findings, asked: Asked, text: str, foreign: list[str]) -> None:
    """What is foreign to a limited person has no name in any page; a 404 repeats the address."""
    shown = text.replace(f"/{asked.address['path']}", "")
    if leaked := [name for name in foreign if name in shown]:
        found.leaks.append(f"{asked} shows {', '.join(leaked)}")


def _lacks(person: dict[str, Any], address: dict[str, Any]) -> bool:
    return not set(address["rights"]) <= set(person["rights"])


def _fingerprints(ground: Ground, world: World) -> Fingerprints:
    """Digest every row of the tables that only people change, without the columns of others.

    Rows of other drills are left out: they may be at work beside this one.
    """
    found = {}
    for table in world.tables:
        (key,) = ground.rows(_KEY, [table])[0]
        digest = "to_jsonb(t) - %s::text[]"
        sql = f"""
            SELECT {key}::text, md5(({digest})::text), t::text LIKE %s FROM {table} t
            WHERE t::text NOT LIKE '%%drill%%' OR t::text LIKE %s"""
        own = [f"%{world.form['name']}%", f"%{ground.suffix}%"]
        rows = ground.rows(sql, [world.not_by_people, *own])
        found[table] = {key: (digest, is_crafted) for key, digest, is_crafted in rows}
    return found


def _changes(before: Fingerprints, after: Fingerprints) -> Iterator[tuple[str, str]]:
    """Table and key of what changed, is gone, or is new and was made by a crafted form.

    What else is new is the work of other drills and of the sample, which nobody audits.
    """
    for table, rows in before.items():
        now = after[table]
        yield from ((table, key) for key, row in rows.items() if now.get(key) != row)
        yield from ((table, key) for key, row in now.items() if key not in rows and row[1])


def _kind(table: str) -> str:
    """How the audit calls what is in this table."""
    return "user" if table.startswith(("auth_", "console_")) else table.partition("_")[2]


def _acted(ground: Ground, name: str) -> list[str]:
    """Rows that say that this person did something: decisions, changes, runs, operations."""
    done = []
    for (statement,) in ground.rows(_ACTED, [["actor", "created_by"]]):
        table, count = ground.rows(statement, [[name]])[0]
        done += [f"{count} rows of {table}"] if count else []
    return done


def _failure(ground: Ground, error_id: str) -> tuple[Any, ...]:
    sql = "SELECT state, version FROM integration_messageerror WHERE id = %s"
    return ground.rows(sql, [error_id])[0]


def _acts(ground: Ground) -> dict[str, int]:
    return dict(ground.rows(_ACTS, {"names": f"drill-{ground.suffix}-%"}))  # type: ignore[arg-type]


def _asked(ground: Ground, verb: str, *words: str) -> dict[str, Any]:
    """Let the process that knows Django do it."""
    said = ", ".join(repr(word) for word in (verb, *words))
    code = f"from bench.drill import addresses; addresses.run({said})"
    lines = ground.manage("shell", "-c", code).splitlines()
    told = next(line for line in lines if line.startswith(MARK))
    answer: dict[str, Any] = json.loads(told.removeprefix(MARK))
    return answer


if __name__ == "__main__":
    from bench.drill.ground import running

    outcome = drill(running())
    print(json.dumps(outcome, indent=2))
    sys.exit(0 if outcome["ok"] else 1)
