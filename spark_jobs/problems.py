"""Why a job cannot go on, as a person can use it."""


class JobError(Exception):
    """A job stops, and nothing of it counts: a stable code, what happened, what to do now."""

    def __init__(self, code: str, text: str, next_step: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.next_step = next_step

    @property
    def told(self) -> tuple[str, str, str]:
        return self.code, self.text, self.next_step

    def __reduce__(self) -> tuple[type["JobError"], tuple[str, str, str]]:
        # It travels from a task to the driver.
        return JobError, (self.code, self.text, self.next_step)


class Stopped(Exception):  # noqa: N818 - nothing is wrong: somebody asked for it
    """Somebody cancelled the job; what it has staged is taken away."""
