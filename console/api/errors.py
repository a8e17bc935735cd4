"""Refusals of the operator API that no page has a word for."""

from collections.abc import Sequence

from integration.http_api.errors import HttpApiError


class NotThereError(HttpApiError):
    """Nothing is there under that name or number, or nothing that this person may know of."""

    code = "NOT_THERE"
    status = 404
    says = "{what}"
    advice = "Look at the list above it; cleanup removes what is old."


class NoSuchOperationError(HttpApiError):
    """The operator API has no such address."""

    code = "NO_SUCH_OPERATION"
    status = 404
    says = "The operator API has nothing at this address."
    advice = "/operator/v1/openapi.json lists every address."


class RightMissingError(HttpApiError):
    """The person, or the token, may not do this."""

    code = "RIGHT_MISSING"
    status = 403
    says = "{why}"
    advice = "If you do have the right in the console, make a token that has it too."


class BadInputError(HttpApiError):
    """What came with the request cannot be used; `mistakes` are places with a sentence each."""

    code = "BAD_INPUT"
    status = 422
    says = "{why}"
    advice = "Correct it; nothing was changed."

    def __init__(self, why: str, mistakes: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(why=why)
        self.mistakes = mistakes


class KeyReusedError(HttpApiError):
    """The idempotency key stands for another request of the same person."""

    code = "KEY_REUSED"
    status = 409
    says = "The Idempotency-Key {key!r} was used before for another request."
    advice = "Nothing was done now. Use a new key for each thing to do."


class EditFaultsError(HttpApiError):
    """The edited message would fail again; `mistakes` are places with a sentence each."""

    code = "EDIT_FAULTS"
    status = 422
    says = "The engine would object to the message as it was edited."
    advice = "Nothing was stored. Correct it, or send “anyway”: true."

    def __init__(self, mistakes: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.mistakes = mistakes


class FileOvertakenError(HttpApiError):
    """The configuration was changed between the judgement of a file and its applying."""

    code = "FILE_OVERTAKEN"
    status = 409
    says = "Somebody changed the configuration while the file was applied; nothing of it was done."
    advice = "Ask for its plan again, look at it, and apply the file once more."
