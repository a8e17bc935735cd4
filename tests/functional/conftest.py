"""What tests of several files ask for."""

from tests.support.unanswered import unanswered  # noqa: F401 - found by its name here
