"""Documents of a believable maintenance department; all names and numbers are made up."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

Fields = dict[str, Any]

SITES: Final = ("NORTH", "HARBOUR", "QUARRY")
KINDS: Final = (
    ("PMP", "Feed pump", "BAR", Decimal(4800)),
    ("CNV", "Belt conveyor", "MPS", Decimal(23500)),
    ("CMP", "Screw compressor", "BAR", Decimal("17250.50")),
    ("GEN", "Emergency generator", "VOLT", Decimal(31900)),
    ("FAN", "Extraction fan", "RPM", Decimal("2150.75")),
    ("HST", "Workshop hoist", "KG", Decimal(6400)),
)
PLACES: Final = (
    ("HALL-1", "Turbine hall", "OPERATING"),
    ("HALL-2", "Press shop", "OPERATING"),
    ("YARD", "Loading yard", "OPERATING"),
    ("STORE", "Spare parts store", "STOREROOM"),
    ("BENCH", "Electrical workshop", "REPAIR"),
)
VENDORS: Final = ("Brightwater Pumps", "Halvard Bearings", "Ostrava Motors", "Lindqvist Belts")
PARTS: Final = (
    ("Shaft seal", Decimal("84.20")),
    ("Roller bearing", Decimal("37.95")),
    ("Oil filter", Decimal("19.50")),
    ("V-belt", Decimal("12.35")),
    ("Proximity switch", Decimal("61.00")),
)
ACCOUNTS: Final = ("6210-MAINT", "6215-PARTS", "6230-SAFETY")
ASSETS: Final = 24


@dataclass(frozen=True, slots=True)
class Machine:
    """One asset of the sample: its number, site and kind follow from its place in the list."""

    index: int

    @property
    def site(self) -> str:
        return SITES[self.index % len(SITES)]

    @property
    def number(self) -> str:
        return f"{KINDS[self.index % len(KINDS)][0]}-{1000 + self.index}"


MACHINES: Final = tuple(Machine(index) for index in range(ASSETS))


def asset(machine: Machine, random: Random) -> Fields:
    prefix, kind, _, price = KINDS[machine.index % len(KINDS)]
    return {
        "assetnum": machine.number,
        "siteid": machine.site,
        "description": f"{kind} {machine.index + 1}",
        "status": random.choices(["OPERATING", "NOT READY"], [9, 1])[0],
        "location": PLACES[machine.index % 3][0],
        "serialnum": f"{prefix}{random.randrange(10**6):06d}",
        "purchase_price": price,
    }


def location(random: Random) -> Fields:
    code, description, kind = random.choice(PLACES)
    return {
        "location": code,
        "siteid": random.choice(SITES),
        "description": description,
        "type": kind,
        "area_sqm": Decimal(random.randrange(400, 9_000)) / 10,
    }


def reading(random: Random, now: datetime) -> Fields:
    machine = random.choice(MACHINES)
    unit = KINDS[machine.index % len(KINDS)][2]
    return {
        "assetnum": machine.number,
        "siteid": machine.site,
        "metername": random.choice(["RUNHOURS", "TEMP-C", unit]),
        "reading": Decimal(random.randrange(1_000, 90_000)) / 100,
        "readingdate": now.isoformat(),
    }


def order(random: Random, now: datetime) -> Fields:
    site = random.choice(SITES)
    at_site = [machine for machine in MACHINES if machine.site == site]
    return {
        "ponum": f"45{random.randrange(1_000):05d}",
        # Seconds are as good as a counter, and survive a restart of this traffic.
        "revision": int(now.timestamp()) - 1_700_000_000,
        "siteid": site,
        "vendor": random.choice(VENDORS),
        "status": random.choice(["WAPPR", "APPR", "APPR", "CLOSE"]),
        "glaccount": random.choice(ACCOUNTS),
        "orderdate": (now - timedelta(days=random.randrange(20))).isoformat(),
        "poline": [
            _line(random, number, random.choice(at_site))
            for number in range(1, random.choice([2, 3, 4]))
        ],
    }


def level(random: Random) -> Fields:
    """Return how many of a part lie in a depot."""
    number = random.randrange(len(PARTS))
    return {
        "itemnum": f"IT-{100 + number}-{random.randrange(90)}",
        "siteid": random.choice(SITES),
        "description": PARTS[number][0],
        "curbal": random.randrange(400),
    }


def _line(random: Random, number: int, machine: Machine) -> Fields:
    description, cost = random.choice(PARTS)
    return {
        "polinenum": number,
        "assetnum": machine.number,
        "description": description,
        "orderqty": random.randrange(1, 9),
        "unitcost": cost,
    }
