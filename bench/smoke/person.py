"""A person at the console, as far as a browser without JavaScript goes: log in, look, release."""

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

_TOKEN: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_VERSION: Final = re.compile(r'name="version" value="(\d+)"')
_MADE: Final = re.compile(r'id="token"[^>]*>([^<]+)<')
TIMEOUT_SECONDS: Final = 15
# Somebody else was faster, or the engine moved the row meanwhile: look again.
CONFLICT: Final = 409


class Person:
    """One browser session."""

    def __init__(self, address: str) -> None:
        self.address = address
        jar = http.cookiejar.CookieJar()
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    def log_in(self, name: str, password: str) -> None:
        """Raises PermissionError when the console does not let this person in."""
        page = self._get("login/")
        fields = {"username": name, "password": password, "next": "/"}
        answer = self._post("login/", page, fields)
        if 'name="password"' in answer:
            raise PermissionError("the console refused the login")

    def make_token(self) -> None:
        """Make a personal token for reading and send it with all that is asked for from now on."""
        path = "account/tokens/new/"
        asked = {"name": "bench", "rights": "view_payload", "days": "1"}
        made = _MADE.search(self._post(path, self._get(path), asked))
        if made is None:
            raise PermissionError("the console made no token")
        self._browser.addheaders.append(("Authorization", f"Bearer {made[1]}"))

    def release(self, error_id: object) -> bool:
        """Open the failure's page and press Release; False when it is no longer to be released."""
        page = self._get(f"failures/{error_id}/")
        version = _VERSION.search(page)
        if version is None:
            return False
        try:
            self._post(f"failures/{error_id}/releases/", page, {"version": version[1]})
        except urllib.error.HTTPError as e:
            if e.code != CONFLICT:
                raise
            return False
        return True

    def health(self) -> int:
        """The status of /healthz, 0 when nobody answers."""
        try:
            with self._browser.open(f"{self.address}healthz", timeout=TIMEOUT_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return 0

    def read(self, path: str) -> str:
        """The text of a page. Raises HTTPError when it is not given."""
        return self._get(path)

    def post(self, path: str, page: str, fields: dict[str, str]) -> str:
        """Send a form of this page; the text of the page it leads to. Raises HTTPError."""
        return self._post(path, page, fields)

    def _get(self, path: str) -> str:
        with self._browser.open(f"{self.address}{path}", timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read().decode())

    def _post(self, path: str, page: str, fields: dict[str, str]) -> str:
        token = _TOKEN.search(page)
        form = {**fields, "csrfmiddlewaretoken": token[1] if token else ""}
        request = urllib.request.Request(  # noqa: S310 - our own http address
            f"{self.address}{path}",
            data=urllib.parse.urlencode(form).encode(),
            headers={"Referer": f"{self.address}{path}"},
        )
        with self._browser.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read().decode())
