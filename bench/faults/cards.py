"""A deck of cards: chance that leaves nothing out for long."""

import random
from collections.abc import Mapping


class Deck:
    """Draws kinds by chance; each comes as often as it is in the deck before any comes again."""

    def __init__(self, chance: random.Random, kinds: Mapping[str, int]) -> None:
        self._chance = chance
        self._all = [kind for kind, count in kinds.items() for _ in range(count)]
        self._left: list[str] = []

    def draw(self) -> str:
        if not self._left:
            self._left = self._chance.sample(self._all, len(self._all))
        return self._left.pop()

    def put_back(self, kind: str) -> None:
        """Put one that could not be used below those that are left."""
        self._left.insert(0, kind)
