"""Secrets of a configuration file: references only, never values."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from integration.endpoints.properties import read_secrets
from integration.errors import IntegrationError

KEPT: Final = "kept"
REFERENCE: Final = re.compile(r"\$\{ENV:([A-Z][A-Z0-9_]{0,119})\}")
# What an export calls the variables of its secrets.
EXPORTED: Final = "SLUICE_CONFIG_"
# What keeps this installation safe is not to be handed to a partner's cluster by a slip or a trick:
# its database's password, its keys, whatever is added one day. Partners' secrets have other names.
# So are those of its servers, which a container is given with the rest, and of its collector.
OWN: Final = re.compile(
    rf"SLUICE_(?!{EXPORTED.removeprefix('SLUICE_')})|OTEL_|PGOPTIONS$|(?:POSTGRES|VALKEY)_PASSWORD$"
)
Lookup = Callable[[str], str | None]


class SecretReferenceError(IntegrationError):
    """A secret in the file cannot be found where it is said to be."""

    code = "SECRET_REFERENCE"

    def __init__(self, why: str) -> None:
        super().__init__(why, next_step="Write ${ENV:NAME} and set NAME, or “kept”.")


@dataclass(slots=True)
class Names:
    """Gives each secret of an export a variable of its own, the same at every export."""

    taken: set[str] = field(default_factory=set)

    def reference(self, *parts: str) -> str:
        begun = re.sub(r"[^A-Z0-9]+", "_", (EXPORTED + "_".join(parts)).upper())[:110]
        name, number = begun, 2
        while name in self.taken:
            name, number = f"{begun}_{number}", number + 1
        self.taken.add(name)
        return f"${{ENV:{name}}}"


def resolve(text: object, stored: str, lookup: Lookup) -> str:
    """The secret that the file means: a variable's content, the stored one, or none.

    Raises SecretReferenceError.
    """
    if text is None or text == "":
        return ""
    if text == KEPT:
        if not stored:
            raise SecretReferenceError("There is no stored secret to keep.")
        return stored
    reference = REFERENCE.fullmatch(text) if isinstance(text, str) else None
    if reference is None:
        raise SecretReferenceError("A secret is never written into this file.")
    name = reference[1]
    if OWN.match(name):
        raise SecretReferenceError(f"{name} is this installation's own and is given to nobody.")
    value = lookup(name)
    if not value:
        raise SecretReferenceError(f"The variable {name} is not set.")
    return value


def gathered(references: object, stored: str, lookup: Lookup) -> str:
    """Several secrets that the file means, as they are stored; one it does not name is gone.

    Raises SecretReferenceError, ValueError with a sentence.
    """
    if references is None or references == "":
        return ""
    if references == KEPT:
        return stored
    if not isinstance(references, Mapping) or not all(isinstance(name, str) for name in references):
        raise ValueError(f"Write names with references, or {KEPT}.")
    old = read_secrets(stored)
    secrets = {name: resolve(text, old.get(name, ""), lookup) for name, text in references.items()}
    present = {name: value for name, value in secrets.items() if value}
    return json.dumps(present, sort_keys=True) if present else ""
