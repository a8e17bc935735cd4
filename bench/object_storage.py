"""An object storage that speaks S3, on this machine: moto's server in a process of its own."""

import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.rig import BenchmarkError
from devstack import ports

READY_SECONDS: Final = 60.0
OK: Final = 200
BUCKET: Final = "plant"
ACCESS_KEY: Final = "AKIAOBJECTSTORAGE"
SECRET_KEY: Final = "nobody-may-read-this-secret-of-objects"  # noqa: S105 - of nothing
# It believes whoever asks; without a name, what is there could not be replaced.
AUTHORIZATION: Final = (
    f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


class ObjectStorage:
    """Its objects are in its memory, and go when it is closed."""

    def __init__(self, folder: Path) -> None:
        self.port = ports.choose()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._log = (folder / "object-storage.log").open("wb")
        words = ["-m", "bench.object_storage_server", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, *words],
            cwd=Path(__file__).parents[1],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait()
        self._asked("PUT", BUCKET, b"")

    @property
    def settings(self) -> dict[str, str]:
        """How it is reached: the fields of `spark_jobs.storage.Storage`."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
        }

    @property
    def environment(self) -> dict[str, str]:
        return {f"SLUICE_S3_{name.upper()}": value for name, value in self.settings.items()}

    def put(self, key: str, data: bytes) -> str:
        """Store an object; returns its name."""
        self._asked("PUT", f"{BUCKET}/{key}", data)
        return f"s3://{BUCKET}/{key}"

    def get(self, name: str) -> bytes:
        """The content of an object, by its name."""
        return self._asked("GET", name.removeprefix("s3://"))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _asked(self, method: str, path: str, data: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/octet-stream", "Authorization": AUTHORIZATION}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, f"/{quote(path)}", data, headers)
            answer = connection.getresponse()
            content = answer.read()
        if answer.status != OK:
            raise BenchmarkError(f"the object storage answered {answer.status} to {method} {path}")
        return content

    def _wait(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                self._asked("GET", "")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    said = Path(self._log.name).read_text()[-2_000:]
                    raise BenchmarkError(f"the object storage does not answer: {said}") from None
                time.sleep(0.05)
            else:
                return
