"""The options for a finding, in words: one place for the pages, commands and actions."""

from dataclasses import dataclass
from typing import Any, Final

from integration.counting import so_many
from integration.models import RestoreFinding

READ_AGAIN: Final = "read-again"
SKIP: Final = "skip"
REVIEW: Final = "review"
PAUSE: Final = "pause"
MARK_SENT: Final = "mark-sent"
SEND_ALL: Final = "send-all"
HOLD: Final = "hold"
DELIVER: Final = "deliver"
# So many messages are laid out for review, no more: each becomes a failure with its payload.
REVIEW_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Option:
    """One way to decide: its word in commands, its button, and what it brings about."""

    word: str
    label: str
    effect: str
    is_advised: bool = False
    needs_reason: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """A finding as people read it, with the ways to decide it."""

    finding: RestoreFinding
    title: str
    what: str
    why: str
    options: tuple[Option, ...]


def card(finding: RestoreFinding) -> Card:
    """Tell what was found, what is known and what is not, and the ways out."""
    facts = finding.facts
    if facts.get("problem"):
        return _silent(finding)
    if finding.kind == RestoreFinding.Kind.POSITION:
        return _delivered(finding) if facts["delivers"] else _read(finding)
    is_sent = finding.kind == RestoreFinding.Kind.SENT
    return _sent(finding) if is_sent else _waiting(finding)


def _pause(name: str) -> Option:
    return Option(PAUSE, "Leave it paused", f"{name} stays paused until somebody resumes it.")


def _range(facts: dict[str, Any]) -> tuple[int, str]:
    count = facts["to"] - facts["from"]
    return count, f"{facts['topic']}, offsets {facts['from']:,} to {facts['to'] - 1:,}"


def _besides(facts: dict[str, Any], count: int) -> str:
    """Tell what else is known of the range."""
    known = []
    if facts["expired"]:
        known.append(
            f"{so_many(facts['expired'], 'of these offsets is', 'of these offsets are')} no longer "
            "in Kafka: they show as a gap."
        )
    if facts["failures"]:
        known.append(
            f"{so_many(facts['failures'], 'open failure lies', 'open failures lie')} at or beyond "
            "the position; each keeps its row and is passed when it is met."
        )
    known.append(f"Offsets have gaps, so there may be fewer than {so_many(count, 'message')}.")
    return " ".join(known)


def _read(finding: RestoreFinding) -> Card:
    facts = finding.facts
    count, where = _range(facts)
    return Card(
        finding,
        title=f"{facts['name']}, partition {finding.partition}: read further than this database",
        what=f"The lost database had read at least {so_many(count, 'message')} more ({where}).",
        why="What they did went back together with the database: business rows, failures and "
        "outgoing messages. " + _besides(facts, count),
        options=(
            Option(
                READ_AGAIN,
                f"Read {count:,} again",
                "Each is applied once, to the data as it was restored. What handlers publish goes "
                "out again with the ids it had, so partners can drop the repeats.",
                is_advised=True,
            ),
            Option(
                SKIP,
                f"Skip {count:,}",
                f"Reading continues at {facts['to']:,}. They are never applied; a gap is recorded, "
                "acknowledged by you. For effects that survived outside this database.",
                needs_reason=True,
            ),
            _pause(facts["name"]),
        ),
    )


def _delivered(finding: RestoreFinding) -> Card:
    facts = finding.facts
    count, where = _range(facts)
    count_kept = min(count, facts["end"] - facts["from"]) - facts["expired"]
    review = Option(
        REVIEW,
        f"Hold up to {count_kept:,} for review",
        "Each becomes a failure on hold with its payload: release what the partner does not "
        "have, say of the others that they arrived. What is written from now on goes out.",
        is_advised=count <= REVIEW_LIMIT,
    )
    return Card(
        finding,
        title=f"{facts['name']}, partition {finding.partition}: delivered further than this "
        "database knows",
        what=f"The lost database had gone through at least {so_many(count, 'message')} more "
        f"({where}).",
        why="Which of them the partner accepted is written nowhere that survived: only the partner "
        "can tell. Most were delivered. " + _besides(facts, count),
        options=(
            *((review,) if count <= REVIEW_LIMIT else ()),
            Option(
                SKIP,
                f"Take {count:,} as delivered",
                f"Delivery continues at {facts['to']:,}. What had failed is not sent again; a gap "
                "is recorded, acknowledged by you.",
                is_advised=count > REVIEW_LIMIT,
                needs_reason=True,
            ),
            Option(
                READ_AGAIN,
                f"Deliver {count:,} again",
                "All are sent again with the ids they had. Right where the partner drops repeats.",
            ),
            _pause(facts["name"]),
        ),
    )


def _sent(finding: RestoreFinding) -> Card:
    facts = finding.facts
    waiting, sent = facts["waiting"], len(facts["sent"])
    left = waiting - sent
    if left and facts.get("has_moved"):
        return _sent_elsewhere(finding, sent, left)
    ahead = "The last batch in Kafka is none of this database's. " if facts["watermarks"] else ""
    return Card(
        finding,
        title=f"{facts['name']}: the relay had sent more than this database knows",
        what=f"{so_many(waiting, 'outgoing message waits', 'outgoing messages wait')} here; "
        f"{so_many(sent, 'is', 'are')} in Kafka already, {left:,} not.",
        why=f"{ahead}Each waiting message was looked for in {', '.join(facts['topics'])} by what "
        "it contains, so of the cluster that the provider names this is certain, except for "
        "records that have expired there. Messages written after the backup are in Kafka only; "
        "what is read again publishes them anew under the same ids.",
        options=(
            Option(
                MARK_SENT,
                f"Mark {sent:,} as sent, send {left:,}",
                "Nothing goes out twice.",
                is_advised=True,
            ),
            Option(
                SEND_ALL,
                f"Send all {waiting:,}",
                f"{so_many(sent, 'message goes', 'messages go')} out a second time, with the same "
                "ids. For a cluster that was put back as well.",
                needs_reason=True,
            ),
        ),
    )


def _sent_elsewhere(finding: RestoreFinding, sent: int, left: int) -> Card:
    """The provider was moved: of what this cluster does not have, the former one may have some."""
    facts = finding.facts
    waiting = facts["waiting"]
    others = "the other one" if left == 1 else f"any of the other {left:,}"
    all_ = "it" if left == 1 else "any of them"
    twice = (
        "What the cluster before has of them goes out a second time, to this one, with the same "
        "ids. Right where it has none, or where nobody reads it any more."
    )
    both = f"{so_many(sent, 'message goes', 'messages go')} to this cluster a second time. {twice}"
    split = Option(MARK_SENT, f"Mark {sent:,} as sent, send {left:,}", twice, needs_reason=True)
    send = Option(SEND_ALL, f"Send all {waiting:,}", both if sent else twice, needs_reason=True)
    return Card(
        finding,
        title=f"{facts['name']}: the relay may have sent more to another cluster",
        what=f"{so_many(waiting, 'outgoing message waits', 'outgoing messages wait')} here; "
        f"{so_many(sent, 'is', 'are')} in the cluster that the provider names now. Whether the "
        f"cluster before has {others if sent else all_} is not known.",
        why="The provider may have named another cluster at the backup. Each waiting message was "
        f"looked for in {', '.join(facts['topics'])} of this one alone, by what it contains; what "
        "was sent to the one before since the backup is written only there. Look into its topics "
        "before you decide. If it has some of these messages, let the provider name it again and "
        "look again: that look asks it. What it does not have is sent to it then, also what this "
        "one has.",
        options=(split, send) if sent else (send,),
    )


def to_deliver(failures: int, calls: int) -> str:
    """Count failures and interrupted calls, as the beginning of a sentence."""
    parts = [so_many(failures, "failure")] if failures or not calls else []
    return " and ".join([*parts, *([so_many(calls, "interrupted call")] if calls else [])])


def _waiting(finding: RestoreFinding) -> Card:
    facts = finding.facts
    failures, calls = facts["waiting"], facts.get("calls", 0)
    waiting = []
    if failures:
        many = so_many(failures, "failed message waits", "failed messages wait")
        waiting.append(f"{many} to be delivered again.")
    if calls:
        many = so_many(calls, "call was", "calls were")
        waiting.append(f"{many} under way at the backup, and would be made again.")
    return Card(
        finding,
        title=f"{facts['name']}: deliveries that may have been made since",
        what=f"{' '.join(waiting)} The backup cannot tell whether that happened since.",
        why="A delivery leaves its trace in the database alone. Ask the partner, or look at the "
        "times: everything here is older than the backup.",
        options=(
            Option(
                HOLD,
                f"Hold {failures + calls:,} for review",
                "They wait on the page Failures: release what the partner does not have, say of "
                "the others that they arrived.",
                is_advised=True,
            ),
            Option(
                DELIVER,
                f"Deliver {failures + calls:,}",
                "They are tried as if nothing had happened, with the ids they had. Right where "
                "the partner drops repeats as old as the backup.",
            ),
        ),
    )


def _silent(finding: RestoreFinding) -> Card:
    facts = finding.facts
    is_relay = finding.kind == RestoreFinding.Kind.SENT
    where = "the relay" if is_relay else f"partition {finding.partition}"
    go_on = (
        Option(SEND_ALL, "Send what waits", "What was sent since the backup goes out twice.")
        if is_relay
        else Option(READ_AGAIN, "Go on", f"Reading continues at {facts['from']:,}, unchecked.")
    )
    return Card(
        finding,
        title=f"{facts['name']}, {where}: Kafka could not be asked",
        what=facts["problem"],
        why="What was done since the backup can only be told when the cluster answers: mend that "
        "and look again. Until then this is held.",
        options=(go_on,) if is_relay else (go_on, _pause(facts["name"])),
    )
