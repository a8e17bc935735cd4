"""The standing of an endpoint: one word, and a sentence with what to do now. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum

from integration.counting import listed, so_many
from integration.models import Endpoint, EndpointCircuit
from integration.policy.states import CircuitState
from integration.selectors.queues.status import Situation


class Standing(Enum):
    """One word for people: (label, tone, sign). The order is how urgent it is, worst first."""

    DOWN = ("Down", "red", "✕")
    PROBING = ("Being asked again", "orange", "?")
    SHAKY = ("Fails now and then", "yellow", "!")
    SYSTEM_OFF = ("System switched off", "orange", "○")
    OFF = ("Switched off", "secondary", "○")
    PAUSED = ("Paused", "azure", "‖")
    UNUSED = ("Not used", "secondary", "·")
    UP = ("Takes messages", "green", "✓")

    def __init__(self, label: str, tone: str, sign: str) -> None:
        self.label, self.tone, self.sign = label, tone, sign

    @property
    def rank(self) -> int:
        """0 for the most urgent one."""
        return list(Standing).index(self)

    @property
    def stops(self) -> bool:
        """Return whether nothing is sent to it now."""
        return self not in {Standing.UP, Standing.SHAKY, Standing.UNUSED}


Judgement = tuple[Standing, Situation]


def judge(
    endpoint: Endpoint,
    circuit: EndpointCircuit,
    waiting: int | None,
    *,
    is_used: bool,
    now: datetime,
) -> Judgement:
    """Judge how it stands, why in a sentence or two, and what to do now (empty: nothing).

    What people switched comes first: it is why nothing is sent, whatever the circuit says.
    `is_used`: a queue or a channel names it.
    """
    switched = _switched(endpoint, _waits(waiting), now)
    return switched or _by_circuit(circuit, waiting, is_used=is_used, now=now)


def shared_ledger(others: Sequence[str]) -> Situation:
    """Say what comes of it that others keep their message ids in an endpoint's ledger."""
    why = (
        f"It keeps message ids in the same table as {listed(others)}, which writes to another "
        "target: a message whose id one of them has delivered is not written by the other."
    )
    step = (
        "Make a table of message ids for one of them, copy the ids that it has delivered into it, "
        "and name it in the endpoint."
    )
    return Situation(why, step)


def _switched(endpoint: Endpoint, waits: str, now: datetime) -> Judgement | None:
    if not endpoint.enabled:
        why = f"A person switched it off. {waits}"
        return Standing.OFF, Situation(why, "Switch it on; waiting messages are then sent.")
    if not endpoint.system.enabled:
        why = f"The external system {endpoint.system.name} is switched off. {waits}"
        step = "Switch the system on; waiting messages are then sent."
        return Standing.SYSTEM_OFF, Situation(why, step)
    if endpoint.paused_until is not None and endpoint.paused_until > now:
        why = f"A person paused it until {moment(endpoint.paused_until, now)}. {waits}"
        return Standing.PAUSED, Situation(why, "Nothing; end the pause to continue sooner.")
    return None


def _by_circuit(
    circuit: EndpointCircuit, waiting: int | None, *, is_used: bool, now: datetime
) -> Judgement:
    if circuit.state != CircuitState.CLOSED:
        return _down(circuit, f"{_waits(waiting)[:-1]}; no retry is spent.", now)
    if circuit.failures:
        times = "one call" if circuit.failures == 1 else f"{circuit.failures} calls in a row"
        why = f"The last {times} did not go through{_cause(circuit)}. It is still called."
        return Standing.SHAKY, Situation(why, "Nothing yet; look at the last answers below.")
    if not is_used:
        why = "No queue and no channel sends to it yet."
        return Standing.UNUSED, Situation(why, "Name it in a queue or in a channel's target.")
    return Standing.UP, Situation(f"It takes messages. {_waits(waiting)}", "")


def _down(circuit: EndpointCircuit, waits: str, now: datetime) -> Judgement:
    since = f" since {moment(circuit.opened_at, now)}" if circuit.opened_at else ""
    down = f"Down{since}{_cause(circuit)}."
    if circuit.state == CircuitState.HALF_OPEN:
        why = f"{down} One message is on its way to find out. {waits}"
        return Standing.PROBING, Situation(why, "Nothing; the answer decides within seconds.")
    step = "Bring it back, or correct its settings; it is tried again by itself."
    return Standing.DOWN, Situation(f"{down} {_next_try(circuit.resume_at, now)} {waits}", step)


def _cause(circuit: EndpointCircuit) -> str:
    text = " ".join(circuit.text.split()).rstrip(".")
    return f": {text[:300]}" if text else ""


def _next_try(at: datetime | None, now: datetime) -> str:
    if at is None or at <= now:
        return "The next try is due now."
    seconds = (at - now).total_seconds()
    if seconds < 90:
        return f"Next try in {max(1, round(seconds))} s."
    return f"Next try at {moment(at, now)}, as it asked for."


def _waits(waiting: int | None) -> str:
    if waiting is None:
        return "It is not known how many messages wait."
    if not waiting:
        return "Nothing waits in its topics."
    return f"{so_many(waiting, 'message waits', 'messages wait')}."


def moment(at: datetime, now: datetime) -> str:
    """A clock time of today, else with its day (UTC): "02:10", "20 November 02:10"."""
    if at.date() == now.date() and abs(at - now) < timedelta(days=1):
        return f"{at:%H:%M}"
    return f"{at.day} {at:%B %H:%M}"
