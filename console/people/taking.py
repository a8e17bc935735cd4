"""Taking away somebody's ways in, judged by what who takes them may do at that moment.

Each raises PermissionDenied for who may not manage people; PersonProtectedError for who is limited
to some external systems, and where the person has more rights; ChangedMeanwhileError where the
person is gone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from console.models import PersonalToken
from console.people import accounts, personal_tokens, sessions
from console.people.company import entering
from console.people.second import factors
from integration.actions.configuration import Author


def token(known: User, one: PersonalToken, by: User | AnonymousUser, reason: str) -> bool:
    """End a personal token of this person; False where it was revoked before."""
    with _reaching(known, by):
        return personal_tokens.revoke(one, Author(by.get_username(), reason))


def second_factors(known: User, by: User | AnonymousUser, reason: str) -> int:
    """Remove all second factors of a person; returns how many."""
    with _reaching(known, by):
        return factors.remove(known, Author(by.get_username(), reason))


def company_login(known: User, by: User | AnonymousUser, reason: str) -> bool:
    """Let a person no longer come in by the company login; False where they did not."""
    author = Author(by.get_username(), reason)
    with _reaching(known, by):
        is_done = entering.disconnect(known, author)
        if is_done:
            # Without the identity nothing would put them to sleep once the person has left.
            personal_tokens.revoke_all(known, author)
        return is_done


def all_sessions(known: User, by: User | AnonymousUser, *, but: str | None) -> int:
    """Log a person out everywhere, but for the session of this key; returns how many ended."""
    with _reaching(known, by):
        return sessions.end(known, but=but)


@contextmanager
def _reaching(known: User, by: User | AnonymousUser) -> Iterator[None]:
    """A transaction in which `by` may change this person, and nobody else changes either one."""
    with transaction.atomic():
        accounts.reached(known, by)
        yield
