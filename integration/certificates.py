"""Certificates and keys, given as text, made into what the TLS library takes."""

import os
import ssl
import tempfile
from pathlib import Path


def tls_context(authorities: str, certificate: str, key: str) -> ssl.SSLContext:
    """A context that checks names and certificates. Raises ValueError with a sentence.

    Without `authorities` those that the machine trusts count.
    """
    try:
        context = ssl.create_default_context(cadata=authorities or None)
    except (ssl.SSLError, ValueError):
        raise ValueError("The certificates of the authority cannot be read.") from None
    if not certificate:
        return context
    if not key:
        raise ValueError("Our certificate needs its private key.")
    # The library reads them from a file only: readable by us alone, and gone at once.
    handle, name = tempfile.mkstemp(prefix="sluice-", suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{certificate.strip()}\n{key.strip()}\n")
        # A key that is locked must not make a worker ask for its password.
        context.load_cert_chain(name, password=lambda: "")
    except (ssl.SSLError, ValueError):
        raise ValueError(
            "Our certificate and its private key cannot be read, or do not belong together."
        ) from None
    finally:
        Path(name).unlink()
    return context


def authorities_file(text: str) -> Path:
    """A file with certificates, for a library that takes no text; whoever asks takes it away."""
    handle, name = tempfile.mkstemp(prefix="sluice-", suffix=".pem")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)
