"""Prints the expressions of the Grafana dashboard as rules, which `promtool check rules` reads."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
# What Grafana fills in.
FILLED_IN: Final = {"$__rate_interval": "5m", "$queue": ".*"}


def expressions() -> Iterator[tuple[str, str]]:
    """Each with the title of its panel, as Prometheus is asked."""
    for panel in json.loads((HERE / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in FILLED_IN.items():
                text = text.replace(name, value)
            yield panel["title"], text


def rules() -> str:
    """The expressions as a file of recording rules; JSON is YAML, too."""
    recorded = [
        {"record": f"dashboard:{number}", "expr": text}
        for number, (_, text) in enumerate(expressions())
    ]
    return json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]})


if __name__ == "__main__":
    sys.stdout.write(rules())
