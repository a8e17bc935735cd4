"""How badges and numbers are written, in templates and in tables alike."""

from typing import Final

UNKNOWN: Final = "\N{EN DASH}"
# Never colour alone: a badge has a sign and a word. (tone, sign, word)
SIGN: Final = '<span class="text-{0}" aria-hidden="true">{1}</span>'
BADGE: Final = f'<span class="badge sign bg-{{0}}-lt">{SIGN} {{2}}</span>'


def number(value: int | None) -> str:
    """Thousands with commas; a dash for what is not known."""
    return UNKNOWN if value is None else f"{value:,}"
