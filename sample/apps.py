"""Registers the sample integration with Django."""

from django.apps import AppConfig


class SampleConfig(AppConfig):
    """A believable maintenance department: assets, purchase orders, meter readings."""

    name = "sample"

    def ready(self) -> None:
        """Let the console offer to take the sample away."""
        from integration.removals import Removal, registry
        from sample import removal

        registry.add(
            Removal(
                name="sample",
                title="The sample data",
                about="Two made-up partners with queues, traffic and failures, to try things out.",
                is_there=removal.is_there,
                goes=removal.goes,
                carry_out=removal.remove,
            )
        )
