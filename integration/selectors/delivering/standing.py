"""How an endpoint stands: one word, and a sentence with what to do now. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from integration.counting import so_many
from integration.policy.states import CircuitState


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

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def tone(self) -> str:
        return self.value[1]

    @property
    def sign(self) -> str:
        return self.value[2]

    @property
    def rank(self) -> int:
        """0 for the most urgent one."""
        return list(Standing).index(self)

    @property
    def stops(self) -> bool:
        """Whether nothing is sent to it now."""
        return self not in {Standing.UP, Standing.SHAKY, Standing.UNUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What the engine found of an endpoint, as it was last written. Times are aware UTC."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    probes: int = 0
    opened_at: datetime | None = None
    resume_at: datetime | None = None
    code: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What people decided about an endpoint; `is_used`: a queue or a channel names it."""

    enabled: bool = True
    system: str = ""
    system_enabled: bool = True
    paused_until: datetime | None = None
    is_used: bool = True


@dataclass(frozen=True, slots=True)
class Told:
    """How it stands, why in a sentence or two, and what to do now (empty: nothing)."""

    standing: Standing
    why: str
    next_step: str


def told(circuit: Circuit, switches: Switches, waiting: int | None, now: datetime) -> Told:
    """What people switched comes first: it is why nothing is sent, whatever the circuit says."""
    return _switched(switches, waiting, now) or _found(circuit, switches, waiting, now)


def _switched(switches: Switches, waiting: int | None, now: datetime) -> Told | None:
    behind = _waits(waiting)
    if not switches.enabled:
        why = f"A person switched it off. {behind}"
        return Told(Standing.OFF, why, "Switch it on; what waits goes out by itself.")
    if not switches.system_enabled:
        why = f"The external system {switches.system} is switched off. {behind}"
        return Told(Standing.SYSTEM_OFF, why, "Switch the system on; what waits goes out then.")
    if switches.paused_until is not None and switches.paused_until > now:
        why = f"A person paused it until {moment(switches.paused_until, now)}. {behind}"
        return Told(Standing.PAUSED, why, "Nothing; end the pause to go on sooner.")
    return None


def _found(circuit: Circuit, switches: Switches, waiting: int | None, now: datetime) -> Told:
    cause = _cause(circuit)
    if circuit.state is not CircuitState.CLOSED:
        return _down(circuit, f"{_waits(waiting)[:-1]}; no retry is spent.", now)
    if circuit.failures:
        times = "one call" if circuit.failures == 1 else f"{circuit.failures} calls in a row"
        why = f"The last {times} did not go through{cause}. It is still called."
        return Told(Standing.SHAKY, why, "Nothing yet; look at the last answers below.")
    if not switches.is_used:
        why = "No queue and no channel sends to it yet."
        return Told(Standing.UNUSED, why, "Name it in a queue or in a channel's target.")
    return Told(Standing.UP, f"It takes messages. {_waits(waiting)}", "")


def _down(circuit: Circuit, behind: str, now: datetime) -> Told:
    since = f" since {moment(circuit.opened_at, now)}" if circuit.opened_at else ""
    if circuit.state is CircuitState.HALF_OPEN:
        why = f"Down{since}{_cause(circuit)}. One message is on its way to find out. {behind}"
        return Told(Standing.PROBING, why, "Nothing; the answer decides within seconds.")
    why = f"Down{since}{_cause(circuit)}. {_next_try(circuit.resume_at, now)} {behind}"
    step = "Bring it back, or correct its settings; it is asked again by itself."
    return Told(Standing.DOWN, why, step)


def _cause(circuit: Circuit) -> str:
    text = " ".join(circuit.text.split()).rstrip(".")
    if not text:
        return ""
    return f": {text[:300]}"


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
        return "Nothing waits."
    return f"{so_many(waiting, 'message waits', 'messages wait')}."


def moment(at: datetime, now: datetime) -> str:
    """A clock time of today, else with its day (UTC): "02:10", "20 November 02:10"."""
    if at.date() == now.date() and abs(at - now) < timedelta(days=1):
        return f"{at:%H:%M}"
    return f"{at.day} {at:%B %H:%M}"
