"""Signatures of requests as Standard Webhooks has them: who sent it, and that nobody changed it."""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
PREFIX: Final = "whsec_"


def signed(
    secrets: Sequence[str], message_id: str, timestamp: int, content: bytes
) -> Mapping[str, str]:
    """The headers of a signed request, with one signature for each secret.

    A receiver takes a request if one of them is right: so a secret can be replaced without a
    request that is refused. `timestamp` is in seconds since 1970.
    """
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: " ".join(
            signature(secret, message_id, str(timestamp), content) for secret in secrets
        ),
    }


def signature(secret: str, message_id: str, timestamp: str, content: bytes) -> str:
    """The signature of id, time and body, by HMAC-SHA256.

    A secret that begins with "whsec_" is base64; any other is taken as it is.
    """
    key = secret.encode()
    if secret.startswith(PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except ValueError:
            # Not base64, or not even ASCII: then it is a secret that only begins so.
            key = secret.encode()
    text = b".".join([message_id.encode(), timestamp.encode(), content])
    return f"v1,{base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()}"
