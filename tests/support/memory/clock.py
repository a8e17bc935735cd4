"""The in-memory fakes' clock."""


class MemoryClock:
    """The database's clock in seconds; it moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
