"""Writes the configuration as a file: everything, in an order that stays the same."""

from typing import Any, Final

import yaml

from crontasks.configfile.facts import shown
from crontasks.configfile.kinds import KINDS, Kind
from crontasks.configfile.reading import FORMAT
from crontasks.configfile.secrets import Names

HEAD: Final = """\
# The configuration of Sluice: docs/configuration-file.md tells what may stand here.
# Positions, failures and pauses are no part of it. Secrets are references, never values.
"""


class _Writer(yaml.SafeDumper):
    """Texts of several lines as blocks, so that certificates and differences can be read."""


def _written(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _written)


def export(*, references: bool = False) -> str:
    """The whole file; each secret as "kept", or with `references` as ${ENV:NAME}.

    The same configuration gives the same bytes.
    """
    names = Names() if references else None
    content: dict[str, Any] = {"format": FORMAT}
    for kind in KINDS:
        content[kind.section] = [shown(kind, row, names) for row in _rows(kind)]
    told = yaml.dump(content, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=100)
    return HEAD + told


def _rows(kind: Kind) -> Any:
    related = [c.name for c in kind.columns.values() if c.is_relation]
    found = (
        kind.model._default_manager.select_related(*related)
        if related
        else kind.model._default_manager.all()
    )
    # By code points, whatever the database's own order of letters is.
    return sorted(found, key=kind.name_of)
