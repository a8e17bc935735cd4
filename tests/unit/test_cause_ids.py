"""The ids of causes: made and read by those only who have the key of the installation."""

import pytest

from integration.policy.failure import Failure, FailureClass
from integration.selectors.failures.cause_ids import UNKNOWN, cause_id, fingerprint_of

pytestmark = pytest.mark.fast
OTHER_KEY = "another key, of fifty characters and more, as Django wants"
CAUSE = Failure(FailureClass.PERMANENT, "NO_CUSTOMER", "Customer Smith is not known.").fingerprint


def test_an_id_stands_for_its_cause_and_does_not_show_it() -> None:
    shown = cause_id(CAUSE)
    assert (shown, fingerprint_of(shown)) == (cause_id(CAUSE), CAUSE)
    assert CAUSE not in shown
    assert cause_id(f"{int(CAUSE, 16) ^ 1:016x}") != shown


def test_a_guess_is_no_id() -> None:
    """Whoever guesses a text knows its fingerprint; no filter takes that, nor what it is not."""
    shown = cause_id(CAUSE)
    spoilt = (shown[:-1], f"{shown}0", f" {shown}", cause_id("a" * 16).upper(), "--", "ffff")
    for guess in (CAUSE, CAUSE * 2, f"{CAUSE}{'0' * 16}", *spoilt):
        assert fingerprint_of(guess) == UNKNOWN


def test_another_installation_has_other_ids_and_a_former_key_still_reads_its_own(settings) -> None:
    former, shown = settings.SECRET_KEY, cause_id(CAUSE)
    settings.SECRET_KEY = OTHER_KEY
    assert cause_id(CAUSE) != shown
    assert fingerprint_of(shown) == UNKNOWN
    settings.SECRET_KEY_FALLBACKS = [former]
    assert fingerprint_of(shown) == CAUSE


@pytest.mark.parametrize("word", ["", "-"])
def test_what_asks_for_any_cause_or_for_none_stays(word: str) -> None:
    assert (cause_id(word), fingerprint_of(word)) == (word, word)
