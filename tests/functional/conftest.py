"""What tests of several files ask for."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from integration.store.sessions import raw_connection
from tests.support.company_login import idp  # noqa: F401 - found by its name here
from tests.support.unanswered import unanswered  # noqa: F401 - found by its name here


@pytest.fixture
def other_session(db: None) -> Iterator[psycopg.Connection[Any]]:
    session = raw_connection("test")
    yield session
    session.close()
