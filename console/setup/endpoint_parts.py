"""How the form of an endpoint is laid out, by handler type; which fields count beside others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crispy_forms.layout import HTML, Div, Field, Fieldset
from django.utils.html import escape

from console.forms.setup_form import Part
from integration.endpoints.declared import Declared, declarations
from integration.endpoints.properties import KINDS

# What each type is for, in a sentence, where it is chosen.
ABOUT: Final[Mapping[str, str]] = {
    "http": "One request for each message: a web service, an API, another integration platform.",
    "file": "Files in a folder, one message or many in each: JSON, XML or columns.",
    "database": "Rows in another PostgreSQL database, inserted or updated by key.",
    "python": "A function of your own app, for everything else.",
}
REPEATS: Final[Mapping[str, str]] = {
    "http": "Switch it on only when the partner drops repeats of a message id by itself.",
    "file": "A file endpoint does it by itself while the file is where it was put.",
    "database": "A database endpoint does it by itself.",
    "python": "Switch it on only when the function drops repeats of message.message_id.",
}
PARTS: Final[Mapping[str, Sequence[Part]]] = {
    "http": (
        ("Request", "", ("url", "method", "headers", "id_header", "success")),
        (
            "Login",
            "",
            (
                "auth",
                "username",
                "password",
                "token",
                "api_key_header",
                "api_key",
                "token_url",
                "client_id",
                "client_secret",
                "scope",
            ),
        ),
        (
            "Certificates and network",
            "",
            ("private_network", "ca_certificate", "client_certificate", "client_key"),
        ),
        ("Time limits", "", ("connect_seconds", "read_seconds", "total_seconds")),
    ),
    "file": (
        ("File", "", ("folder", "file_name", "at_once")),
        ("Content", "", ("format", "root", "columns", "separator", "heading")),
    ),
    "database": (
        (
            "Connection",
            "",
            (
                "host",
                "port",
                "database",
                "username",
                "password",
                "sslmode",
                "ca_certificate",
                "private_network",
            ),
        ),
        (
            "Table",
            "",
            ("schema", "table", "columns", "mode", "key_columns", "message_id_column", "at_once"),
        ),
        ("Time limits", "", ("connect_seconds", "statement_seconds")),
    ),
    "python": (("Function", "", ("function", "total_seconds")),),
}


def laid_out(handler_type: str, fields: Mapping[str, Any]) -> list[Fieldset]:
    """The parts of a type, with what counts only beside another field marked as such."""
    known = declarations(KINDS[handler_type])
    found = []
    for title, sentence, names in PARTS[handler_type]:
        lead = [HTML(f'<p class="text-secondary">{escape(sentence)}</p>')] if sentence else []
        rows = [_row(name, known[name], fields) for name in names]
        found.append(Fieldset(title, *lead, *rows))
    return found


def _row(name: str, declared: Declared, fields: Mapping[str, Any]) -> Div | Field:
    wanted = [one for one in (name, f"remove_{name}") if one in fields]
    if declared.only is None:
        return Div(*(Field(one) for one in wanted))
    # The style sheet shows them while their choice is made; without it they are all there.
    other, values = declared.only
    marks = " ".join(f"only-{other}-{value}" for value in values)
    return Div(*(Field(one) for one in wanted), css_class=f"only {marks}")
