"""The engine with one of its safeguards taken out, to prove that the safeguard is needed.

Only the process named `python -m tests.support.mutant_child` uses this; the product has no switch.
"""

from integration.store import unit_of_work as work

MUTATIONS = {
    "none": [],
    # Whoever still has a batch open may settle it, wherever the position is by now.
    "fence": [("AND epoch = %s AND next_offset = %s", "AND (%s, %s) IS NOT NULL")],
    # Only the position is compared, not who owns it.
    "epoch": [
        (
            "AND epoch = %s AND next_offset = %s",
            "AND %s > 0 AND next_offset = %s",
        )
    ],
}


def mutate(name: str) -> None:
    for old, new in MUTATIONS[name]:
        if work.ADVANCE.count(old) != 1:
            raise AssertionError(f"The statement has changed; {old!r} is not in it.")
        work.ADVANCE = work.ADVANCE.replace(old, new)
