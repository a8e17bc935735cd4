"""`python -m sluice_cli`: the same as `sluice`."""

from sluice_cli.main import run

if __name__ == "__main__":
    run()
