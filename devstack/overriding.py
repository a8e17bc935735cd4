"""The `override` mark, which Python has from 3.12 on, for code that runs without any package."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):  # noqa: ANN001, ANN201 - the type checker sees the real one
        """Mark a method as replacing an inherited one; only the type checker looks at it."""
        return method


__all__ = ["override"]
