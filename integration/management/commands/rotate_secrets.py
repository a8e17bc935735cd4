"""`manage.py rotate_secrets`: encrypt every stored secret with the first key."""

import sys

from django.core.management.base import BaseCommand

from integration.actions.rotation import rotate_all


class Command(BaseCommand):
    """Exit code 1 when a secret cannot be read with any configured key."""

    help = (
        "Encrypt every stored secret with the first of SLUICE_ENCRYPTION_KEYS, so that older keys "
        "can be taken out of the list. May run any number of times, beside running processes."
    )

    def handle(self, *_: object, **__: object) -> None:
        kinds = rotate_all()
        for kind in kinds:
            self.stdout.write(
                f"{kind.kind}: {kind.rotated:,} encrypted anew, {kind.current:,} were already, "
                f"{len(kind.unreadable):,} cannot be read"
            )
        lost = [f"{kind.kind} of row {row}" for kind in kinds for row in kind.unreadable]
        if not lost:
            self.stdout.write(
                "Every secret now opens with the first key. Once every process has been started "
                "with it, the other keys can go."
            )
            return
        self.stdout.write(
            f"No configured key opens: {', '.join(lost)}. Put the key they were written with back "
            "into SLUICE_ENCRYPTION_KEYS and run this again, or write the secrets anew in the "
            "console. Do not take any key away yet."
        )
        sys.exit(1)
