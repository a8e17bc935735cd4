"""Brings the database and the static files up to date, in one process because each loads Django.

Run as `python -m devstack.prepare` with Sluice's settings in the environment. Standard output is
for people, standard error for the log.
"""

import os
import sys
import time

import django
from django.core.management import call_command

from devstack.kafka import serves_clients
from devstack.parts import shows_payments, shows_sample
from devstack.progress import step

KAFKA_WITHIN_SECONDS = 90.0


def main() -> None:
    with step("Migrations"):
        django.setup()
        call_command("migrate", interactive=False, stdout=sys.stderr)
    with step("Static files"):
        call_command("collectstatic", interactive=False, stdout=sys.stderr)
    # The migrations need the database only and run while Kafka is still starting.
    _wait_for_kafka()
    with step("First data"):
        with_sample = shows_sample(os.environ)
        call_command("devstack_seed", no_sample=not with_sample, stdout=sys.stderr)
        if shows_payments(os.environ):
            call_command("seed_payments", *_broker(), stdout=sys.stderr)


def _broker() -> list[str]:
    """The words that name the JMS broker, if one runs."""
    words = {"--jms": "JMS_SERVER", "--user": "JMS_USER", "--password": "JMS_PASSWORD"}
    return [f"{word}={os.environ[name]}" for word, name in words.items() if name in os.environ]


def _wait_for_kafka() -> None:
    port = int(os.environ["SLUICE_KAFKA_BOOTSTRAP"].rpartition(":")[2])
    until = time.monotonic() + KAFKA_WITHIN_SECONDS
    while not serves_clients(port):
        if time.monotonic() > until:
            sys.exit(f"Kafka does not answer on port {port}")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
