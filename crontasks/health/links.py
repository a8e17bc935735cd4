"""One thing that was looked at: whether it is as it should be, and what to do if not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """`next_step` is empty when `ok`.

    `said` is a client's own sentence. It may name internal hosts: for commands, not for pages.
    """

    name: str
    ok: bool
    text: str
    next_step: str = ""
    said: str = ""


def good(name: str, text: str) -> Link:
    return Link(name, ok=True, text=text)


def broken(name: str, text: str, next_step: str, said: str = "") -> Link:
    return Link(name, ok=False, text=text, next_step=next_step, said=said)


def lines(links: list[Link]) -> list[str]:
    """As a command shows them."""
    shown = []
    for link in links:
        said = f" It said: {link.said.rstrip('.')}." if link.said else ""
        shown.append(f"{'ok    ' if link.ok else 'BROKEN'}  {link.name:<10}  {link.text}{said}")
        if not link.ok:
            shown.append(f"{'':20}-> {link.next_step}")
    return shown


def reason(problem: Exception) -> str:
    """The first line of what a database says: the others guess at the cause."""
    said = str(problem).strip()
    return said.splitlines()[0].rstrip(".") if said else type(problem).__name__
