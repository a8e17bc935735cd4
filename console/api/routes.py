"""How an operation of the API is declared: its method and address, its rights, its answer."""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja import Router, Schema
from ninja.security.http import HttpAuthBase
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from console.api.once import begin, once
from console.layout.access import Right, require
from console.people.personal_tokens import NoPersonalTokenError, person_of

View = TypeVar("View", bound=Callable[..., Any])
SCHEME: Final = "bearer"
# The members by which the document tells of an operation's rights, and that it takes keys.
RIGHTS: Final = "x-rights"
ACTS: Final = "x-acts"
# No column of text can hold a NUL.
Text = Annotated[str, StringConstraints(pattern="^[^\x00]*$", max_length=20_000)]
Reason = Annotated[str, StringConstraints(pattern="^[^\x00]*$", max_length=500)]
Version = Annotated[int, Field(ge=0, lt=2**31)]


def _whole(text: str) -> str:
    """JSON can name half of a character by its escape; no encoding has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        why = "The text holds half of a character (a lone surrogate), which cannot be encoded."
        raise PydanticCustomError("half_a_character", why) from None
    return text


# A payload: of any length and content, as long as there are bytes for it.
Whole = Annotated[str, AfterValidator(_whole)]


class Needs(HttpAuthBase):
    """A personal token whose person has all of these rights, and which leaves them.

    It is looked at before anything else of the request: who may not do it learns nothing.
    """

    openapi_scheme = SCHEME

    def __init__(self, *rights: Right) -> None:
        super().__init__()
        self.rights = rights

    def __call__(self, request: HttpRequest) -> User:
        scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() != SCHEME or not token.strip():
            raise NoPersonalTokenError
        person = person_of(token.strip())
        request.user = person
        require(person, *self.rights)
        begin(request)
        return person


class Given(Schema):
    """The base of all bodies: a misspelt name is refused, not left out."""

    model_config = ConfigDict(extra="forbid")


class Decision(Given):
    """Why something is decided, for the history."""

    reason: Reason = ""


def operation(
    router: Router, method: str, path: str, *rights: Right, answer: Any, **more: Any
) -> Callable[[View], View]:
    """Declare a view: who has all of these rights may call it by this method at this path.

    `more`: the good `status`, if it is not 200, a `description`, if it is not the view's own, and
    further members of the operation's document.
    """
    status, description = more.pop("status", 200), more.pop("description", None)
    found: Callable[[View], View] = router.api_operation(
        [method],
        path,
        auth=Needs(*rights),
        response={status: answer},
        description=description,
        openapi_extra={RIGHTS: [right.word for right in rights], ACTS: False, **more},
    )
    return found


def acting(
    router: Router, method: str, path: str, *rights: Right, answer: Any, **more: Any
) -> Callable[[Callable[..., Schema]], Callable[..., Any]]:
    """Declare a view that acts: done once for each idempotency key, else as `operation`."""
    status = more.get("status", 200)
    declared = operation(router, method, path, *rights, answer=answer, **{ACTS: True, **more})

    def acts(view: Callable[..., Schema]) -> Callable[..., Any]:
        return declared(once(view, status))

    return acts


def reading(
    router: Router, path: str, *rights: Right, answer: Any, **more: Any
) -> Callable[[View], View]:
    """Declare a view that changes nothing, else as `operation`; it needs the right to see, too."""
    return operation(router, "GET", path, Right.VIEW, *rights, answer=answer, **more)
