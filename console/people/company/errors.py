"""Why somebody does not get in by the company login: a code, a sentence, what to do."""

from collections.abc import Sequence
from typing import ClassVar

from django.conf import settings

from integration.errors import IntegrationError

# More group names than these tell nobody more.
SHOWN_GROUPS = 20


class CompanyLoginError(IntegrationError):
    """The company login let nobody in. `status` is that of the page which says so."""

    status: ClassVar[int] = 403


class IdentityProviderDownError(CompanyLoginError):
    """The identity provider cannot be reached, or does not answer as one."""

    code = "IDENTITY_PROVIDER_DOWN"
    status = 503

    def __init__(self, what: str) -> None:
        local = " Log in with a password meanwhile." if settings.SLUICE_LOCAL_LOGIN else ""
        super().__init__(
            f"The company login cannot be used now: {what}.",
            next_step=f"Try again in a few minutes.{local} If it lasts, tell an administrator.",
        )


class IdentityAnswerRefusedError(CompanyLoginError):
    """What came back from the identity provider does not prove who somebody is."""

    code = "IDENTITY_ANSWER_REFUSED"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The answer of the company login was refused: {why}.",
            next_step="Log in again. If this happens again, tell an administrator.",
        )


class IdentityDeniedError(CompanyLoginError):
    """The identity provider itself let nobody in."""

    code = "IDENTITY_DENIED"

    def __init__(self, error: str) -> None:
        super().__init__(
            f"The company login did not let you in ({error}).",
            next_step="Log in again, or ask those who run it for access to this console.",
        )


class IdentityWithoutRoleError(CompanyLoginError):
    """None of the person's groups gives a role here."""

    code = "IDENTITY_WITHOUT_ROLE"

    def __init__(self, name: str, groups: Sequence[str]) -> None:
        shown = ", ".join(groups[:SHOWN_GROUPS])
        told = f"Your groups: {shown}." if groups else "It sent no groups for you."
        super().__init__(
            f"The company login knows you as {name}, but none of your groups has a role here. "
            f"{told}",
            next_step="Ask an administrator of this console to give one of them a role "
            "(People, Groups), or ask those who run the company login for the right group.",
        )


class IdentityTooManyGroupsError(CompanyLoginError):
    """More groups were told than are looked at."""

    code = "IDENTITY_TOO_MANY_GROUPS"

    def __init__(self, told: int, most: int) -> None:
        super().__init__(
            f"The company login sent {told:,} groups for you; at most {most:,} are looked at, "
            "and one that is left out could be the one that limits you.",
            next_step="Ask those who run the company login to send this console only the groups "
            "that are assigned to it.",
        )


class IdentityNameTakenError(CompanyLoginError):
    """There is an account of that name, and nobody has said that it is the same person's."""

    code = "IDENTITY_NAME_TAKEN"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is an account named {name} here already, which was not made by the company "
            "login.",
            next_step="If it is yours, log in to it with its password and connect it under “My "
            "account”. Otherwise ask an administrator.",
        )


class IdentityWithoutNameError(CompanyLoginError):
    """The identity provider told of no name that an account can have."""

    code = "IDENTITY_WITHOUT_NAME"

    def __init__(self, claim: str) -> None:
        super().__init__(
            f"The company login sent no name that can be used for an account (claim {claim}).",
            next_step="Let an administrator set SLUICE_OIDC_NAME_CLAIM to a claim that has one.",
        )


class IdentityAccountOffError(CompanyLoginError):
    """The person's account may not log in, or cannot be made here."""

    code = "IDENTITY_ACCOUNT_OFF"

    def __init__(self, why: str) -> None:
        super().__init__(why, next_step="Ask an administrator of this console.")


class IdentityOfAnotherError(CompanyLoginError):
    """The company login belongs to another account, or the account to another company login."""

    code = "IDENTITY_OF_ANOTHER"

    def __init__(self) -> None:
        super().__init__(
            "This company login is connected with another account, or your account with another "
            "company login.",
            next_step="Ask an administrator to disconnect the one that is wrong.",
        )
