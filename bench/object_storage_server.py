"""moto's server with the answer to a multi-part upload that Amazon gives: `python -m … PORT`.

Its own names the answer's element by another name, which Arrow's client takes for an error.
"""

import sys
from typing import Any, Final

from moto.core import serialize
from moto.server import main

THEIRS: Final = "CompleteMultipartUploadResponse"
AMAZON: Final = "CompleteMultipartUploadResult"


class AsAmazon(serialize.S3Serializer):
    """Answers whose elements are named as the documentation of S3 names them."""

    def _serialize_body(self, body: Any) -> str:
        named = {AMAZON if name == THEIRS else name: value for name, value in body.items()}
        return super()._serialize_body(named)


if __name__ == "__main__":
    serialize.SERVICE_SPECIFIC_SERIALIZERS["s3"]["rest-xml"] = AsAmazon
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
