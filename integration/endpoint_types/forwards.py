"""How forwards are named in the trail of what they forward."""

from django.conf import settings


def place_of(queue: str) -> str:
    """Return what stands for the forward that a queue of this name is."""
    return f"{settings.SLUICE_DEPLOYMENT}/{queue}"
