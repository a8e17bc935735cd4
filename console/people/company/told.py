"""What an identity provider tells of a person, read from its claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.people.company.errors import IdentityTooManyGroupsError

MOST_GROUPS: Final = 1_000
LONGEST_GROUP: Final = 200


@dataclass(frozen=True, slots=True)
class Told:
    """A person as the identity provider tells of them."""

    issuer: str
    subject: str
    name: str
    email: str
    groups: tuple[str, ...]
    # When they last proved who they are, in seconds since 1970; None where it was not told.
    at: float | None


def told_by(claims: Mapping[str, Any], *, name_claim: str, groups_claim: str) -> Told:
    """The person of verified claims. Raises IdentityTooManyGroupsError.

    >>> told_by({"iss": "https://id", "sub": "7", "preferred_username": "olga",
    ...          "realm_access": {"roles": ["b", "a"]}}, name_claim="preferred_username",
    ...         groups_claim="realm_access.roles")
    Told(issuer='https://id', subject='7', name='olga', email='', groups=('a', 'b'), at=None)
    """
    at = claims.get("auth_time")
    return Told(
        issuer=str(claims["iss"]),
        subject=str(claims["sub"]),
        name=_text(claims.get(name_claim)),
        email=_text(claims.get("email")),
        groups=tuple(sorted(_groups(value_of(claims, groups_claim)))),
        at=float(at) if isinstance(at, int | float) else None,
    )


def value_of(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, in which dots lead into objects unless a claim has that very name.

    >>> value_of({"a.b": 1, "a": {"b": 2}}, "a.b"), value_of({"a": {"b": 2}}, "a.b")
    (1, 2)
    >>> value_of({"a": 1}, "a.b") is None
    True
    """
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def leaves_groups_out(claims: Mapping[str, Any]) -> bool:
    """Whether the provider says that there are groups which it did not write down."""
    names = claims.get("_claim_names")
    return claims.get("hasgroups") is True or (isinstance(names, Mapping) and "groups" in names)


def _groups(value: Any) -> set[str]:
    """Names of groups; those that no rule can name are left out.

    Too many are refused, not cut: one that is left out may be the one that limits the person.
    """
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        return set()
    texts = (one.strip() for one in value if isinstance(one, str))
    groups = {text for text in texts if 0 < len(text) <= LONGEST_GROUP}
    if len(groups) > MOST_GROUPS:
        raise IdentityTooManyGroupsError(len(groups), MOST_GROUPS)
    return groups


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
