"""Avro's logical types as JSON has them: moments in ISO form, decimals as numbers, bytes as Base64.

What has no such form (a moment outside of the years 1 to 9999) stays the number that it is.
"""

import struct
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from integration.envelope import Flaw, FlawCode
from integration.envelope.json_flaw import MAX_DIGITS
from integration.formats.schema import MisfitError, UnreadableError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a local moment has no zone
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_DAY_MICROS: Final = 24 * 60 * 60 * 1_000_000
_MICRO: Final = timedelta(microseconds=1)
# The microseconds in one unit of a logical type.
UNITS: Final = {"millis": 1_000, "micros": 1}
_EXACT: Final = Context(prec=2 * MAX_DIGITS)
_NOT_A_NUMBER: Final = UnreadableError(
    Flaw(FlawCode.NOT_A_NUMBER, "A number is NaN or infinite, which JSON does not have.")
)


def decimal_of(number: float) -> Decimal:
    """Return a double as the shortest decimal that is it. Raises UnreadableError for NaN."""
    if number - number != 0:
        raise _NOT_A_NUMBER
    return Decimal(repr(number))


def short_decimal_of(number: float) -> Decimal:
    """Return what was stored in four bytes as the shortest decimal that is it again."""
    if number - number != 0:
        raise _NOT_A_NUMBER
    for digits in (6, 7, 8):
        text = f"{number:.{digits}g}"
        if struct.unpack("<f", struct.pack("<f", float(text)))[0] == number:
            return Decimal(text)
    return Decimal(f"{number:.9g}")


def date_text(days: int) -> Any:
    try:
        return date.fromordinal(days + _DAY_ZERO).isoformat()
    except (ValueError, OverflowError):
        return days


def time_text(number: int, unit: str) -> Any:
    micros = number * UNITS[unit]
    if not 0 <= micros < _DAY_MICROS:
        return number
    return (datetime.min + timedelta(microseconds=micros)).time().isoformat()  # noqa: DTZ901 - only its time


def moment_text(number: int, unit: str, *, is_local: bool) -> Any:
    try:
        epoch = _LOCAL_EPOCH if is_local else _EPOCH
        return (epoch + timedelta(microseconds=number * UNITS[unit])).isoformat()
    except OverflowError:
        return number


def scaled(unscaled: bytes, scale: int) -> Decimal:
    """Return the decimal of these big-endian bytes. Raises UnreadableError for too many digits."""
    number = int.from_bytes(unscaled, "big", signed=True)
    if len(unscaled) > MAX_DIGITS // 2:
        text = f"A decimal has {len(unscaled):,} bytes."
        raise UnreadableError(Flaw(FlawCode.NUMBER_TOO_LONG, text))
    return Decimal(number).scaleb(-scale, context=_EXACT)


def base64_text(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def bytes_of(value: object) -> bytes:
    """Undo base64_text. Raises MisfitError."""
    if isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except (Base64Error, ValueError):
            pass
    raise MisfitError("it must be Base64 text.")


def date_number(value: object) -> int:
    """Undo date_text. Raises MisfitError."""
    try:
        return date.fromisoformat(_text(value)).toordinal() - _DAY_ZERO
    except ValueError:
        raise MisfitError("it must be a date such as 2026-11-26.") from None


def time_number(value: object, unit: str) -> int:
    """Undo time_text. Raises MisfitError."""
    try:
        at = time.fromisoformat(_text(value))
    except ValueError:
        raise MisfitError("it must be a time such as 14:30:00.") from None
    passed = timedelta(
        hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond
    )
    return _whole(passed, unit)


def moment_number(value: object, unit: str, *, is_local: bool) -> int:
    """Undo moment_text; without an offset it is UTC. Raises MisfitError."""
    try:
        moment = datetime.fromisoformat(_text(value))
    except ValueError:
        raise MisfitError("it must be a time such as 2026-11-26T14:30:00+00:00.") from None
    if is_local:
        if moment.tzinfo is not None:
            raise MisfitError("it is a local time: leave out the offset.")
        return _whole(moment - _LOCAL_EPOCH, unit)
    return _whole((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH, unit)


def unscaled(value: object, scale: int, precision: int) -> int:
    """Undo `scaled`. Raises MisfitError where digits would be lost."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise MisfitError("it must be a number.")
    number = Decimal(value).scaleb(scale, context=_EXACT)
    if number != number.to_integral_value():
        raise MisfitError(f"it has more than {scale} digits behind the point.")
    # Not abs(): that rounds to 28 digits.
    if number.copy_abs() >= Decimal(10) ** precision:
        raise MisfitError(f"it has more than {precision} digits.")
    return int(number)


def _whole(passed: timedelta, unit: str) -> int:
    number, rest = divmod(passed // _MICRO, UNITS[unit])
    if rest:
        raise MisfitError("it is more exact than milliseconds, which is all the schema keeps.")
    return number


def _text(value: object) -> str:
    """Return a text; what is none is one that no moment has."""
    return value if isinstance(value, str) else ""
