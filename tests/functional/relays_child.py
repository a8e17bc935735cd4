"""The relays of a process, as a worker's task runs them again and again; until it is killed."""

import django


def main() -> None:
    django.setup()
    from integration.runs.relay import relay_all  # noqa: PLC0415 - Django is set up first

    while True:
        relay_all(lambda: False)


if __name__ == "__main__":
    main()
