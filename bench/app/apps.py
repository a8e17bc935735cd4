"""Registers the benchmarks' own integration; installed only by the benchmarks' environment."""

from django.apps import AppConfig


class BenchConfig(AppConfig):
    """Handlers and plain tables of the benchmarks."""

    name = "bench.app"
    label = "bench"

    def ready(self) -> None:
        from bench.app import looks, receipts, sampling

        receipts.connect()
        sampling.connect()
        looks.connect()
