"""Where a queue's order key stands in its documents: what is wrong with such a path."""

from integration.paths import BadPath, compile_path


def mistake(path: str, *, is_used: bool, is_late: bool) -> str:
    """Say why a queue cannot have this path, or nothing.

    `is_used`: its messages are kept in the order of a key; `is_late`: of failures that are open the
    key was read otherwise.
    """
    if is_late:
        return "Failures are open, and their keys were read otherwise: close them first."
    if not path:
        return ""
    try:
        compile_path(path)
    except BadPath as e:
        return str(e)
    if not is_used:
        return "Only a continuous inbound queue with the order of a key uses it: leave it out."
    return ""
