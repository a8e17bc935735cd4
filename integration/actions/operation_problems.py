"""Why a bulk operation was not planned, started or changed, told so that people know what to do."""

from typing import ClassVar

from integration.errors import IntegrationError
from integration.policy.states import OperationState

STATE_WORDS = {
    OperationState.PLANNED: "planned and not started",
    OperationState.RUNNING: "running",
    OperationState.PAUSED: "paused",
    OperationState.DONE: "done",
    OperationState.CANCELLED: "cancelled",
}


class OperationMovedError(IntegrationError):
    """The operation is not in the state, or not as, the person saw it; nothing was changed."""

    code: ClassVar[str] = "OPERATION_MOVED"

    def __init__(self, state: OperationState | None) -> None:
        if state is None:
            sentence = "This operation does not exist any more: it was cleaned up."
        else:
            sentence = (
                "The operation has been changed since this page was made; "
                f"now it is {STATE_WORDS[state]}."
            )
        super().__init__(sentence, next_step="Nothing was changed; look at it again.")
        self.state = state


class NothingChosenError(IntegrationError):
    """No message is left in the selection, so there is nothing to plan."""

    code: ClassVar[str] = "NOTHING_CHOSEN"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was selected, or nothing matches any more.",
            next_step="Tick the failures you mean first.",
        )


class BadRecipeError(IntegrationError):
    """What is to be changed in each message cannot be understood."""

    code: ClassVar[str] = "BAD_RECIPE"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The change cannot be used: {why}.",
            next_step='Write a path like $.asset.siteid or /asset/siteid, or a JSON Patch: [{"op": '
            '"replace", "path": "/asset/siteid", "value": "NORTH"}].',
        )


class RecipeUntriedError(IntegrationError):
    """An edit of many messages starts only after it was tried on all of them."""

    code: ClassVar[str] = "RECIPE_UNTRIED"

    def __init__(self) -> None:
        super().__init__(
            "The change has not been tried on all messages yet.",
            next_step="Let the dry run come to its end; it changes nothing.",
        )
