"""The only reader of the process environment: typed settings, every mistake reported at once."""

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FOUND_IN_ENV_FILE = "see .env.example for every variable, its meaning and a working value"


class SettingsError(Exception):
    """The environment does not describe a Sluice installation; lists every mistake."""

    code = "BAD_SETTINGS"

    def __init__(self, mistakes: list[str], where: str = FOUND_IN_ENV_FILE) -> None:
        lines = "\n".join(f"  - {mistake}" for mistake in mistakes)
        super().__init__(f"Sluice cannot start; {where}:\n{lines}")
        self.mistakes = mistakes


ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,20}")
# Environments where nothing is worth a secret of its own.
WITHOUT_SECRETS: Final = frozenset({"development", "test"})
# Readers of the figures of a laptop where nothing else is said: itself.
LOOPBACK: Final = ("127.0.0.0/8", "::1")
# Hosts that are reached without a network: an identity provider there may go without TLS.
AT_HOME: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SECOND_FACTORS: Final = frozenset({"app", "passkey", "none"})
WELL_KNOWN: Final = "/.well-known/openid-configuration"
# Values of .env.example, so that it works as it stands.
PUBLIC: Final = frozenset(
    {
        "for-a-laptop-only-replace-it-everywhere-else-with-your-own",
        "dGhpcy1rZXktaXMtcHVibGljLW1ha2UteW91ci1vd24=",
    }
)


class Reader:
    """Reads variables one by one and collects what is wrong with them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.mistakes: list[str] = []

    def text(self, name: str, default: str | None = None) -> str:
        value = self.variables.get(name, "").strip()
        if value:
            return value
        if default is None:
            self.mistakes.append(f"{name} is not set")
            return ""
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.variables.get(name, "").strip().lower()
        words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if value and value not in words:
            self.mistakes.append(f"{name} is {value!r}; write 1 or 0")
        return words.get(value, default)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(name, default).upper()
        if value not in choices:
            self.mistakes.append(f"{name} is {value!r}; write one of {', '.join(choices)}")
        return value

    def words(self, name: str, default: str | None = "") -> tuple[str, ...]:
        parts = self.text(name, default).split(",")
        return tuple(part.strip() for part in parts if part.strip())

    def networks(self, name: str) -> tuple[str, ...]:
        """IP addresses and networks, by commas."""
        networks = self.words(name)
        for word in networks:
            try:
                ip_network(word)
            except ValueError:
                self.mistakes.append(
                    f"{name} names {word!r}; write addresses such as 10.0.0.7 or networks such as "
                    "10.0.0.0/24, by commas"
                )
        return networks

    def seconds(self, name: str, default: float) -> float:
        value = self.variables.get(name, "").strip()
        try:
            number = float(value) if value else default
        except ValueError:
            number = -1.0
        if not 0 < number < 86_400:
            self.mistakes.append(f"{name} is {value!r}; write a number of seconds above 0")
        return number

    def count(self, name: str, default: int) -> int:
        value = self.variables.get(name, "").strip()
        if value and not (value.isascii() and value.isdecimal() and len(value) < 10):
            self.mistakes.append(f"{name} is {value!r}; write a whole number, 0 or more")
            return default
        return int(value) if value else default

    def issuer(self, name: str) -> str:
        """The address of an identity provider, without a slash at its end; empty: none."""
        value = self.text(name, "").removesuffix(WELL_KNOWN).rstrip("/")
        try:
            parts = urlsplit(value)
            is_safe = parts.scheme == "https" or parts.hostname in AT_HOME
            is_good = bool(parts.hostname) and parts.scheme in {"http", "https"} and is_safe
        except ValueError:
            is_good = False
        if value and (not is_good or "?" in value or "#" in value):
            self.mistakes.append(
                f"{name} is {value!r}; write the identity provider's https:// address, as its "
                "discovery document calls the issuer"
            )
        return value

    def folder(self, name: str) -> Path | None:
        """A folder that is there; None when none is named."""
        value = self.text(name, "")
        if not value:
            return None
        path = Path(value)
        if not path.is_absolute():
            self.mistakes.append(f"{name} is {value!r}; write a path that begins with /")
        elif not path.is_dir():
            self.mistakes.append(f"{name} is {value!r}, and there is no such folder; make it first")
        return path

    def pairs(self, name: str, prefix: str) -> dict[str, str]:
        """Words `name=value` by commas or lines, each name beginning with `prefix`; or JSON.

        A comma that no such name follows is part of a value.
        """
        text = self.text(name, "")
        pairs: Any = None
        with suppress(ValueError):
            pairs = json.loads(text) if text.startswith("{") else _pairs(text, prefix)
        if isinstance(pairs, dict) and all(
            key.startswith(prefix) and isinstance(value, str) for key, value in pairs.items()
        ):
            return pairs
        self.mistakes.append(
            f"{name} is {text!r}; write {prefix}name=value, several by commas, "
            "or an object of JSON with texts"
        )
        return {}

    def keys(self, name: str) -> tuple[str, ...]:
        keys = self.words(name, None)
        if not keys and self.variables.get(name, "").strip():
            self.mistakes.append(f"{name} holds no key")
        for place, key in enumerate(keys, start=1):
            if not _is_fernet_key(key):
                self.mistakes.append(
                    f"{name}: key {place} is not 32 bytes in URL-safe base64; "
                    "make one with `python manage.py make_encryption_key`"
                )
        return keys

    def databases(self, name: str) -> dict[str, dict[str, object]]:
        """Databases `alias=URL`, by commas or spaces."""
        found = {}
        for word in self.text(name, "").replace(",", " ").split():
            alias, _, url = word.partition("=")
            if not ALIAS.fullmatch(alias) or alias == "default":
                self.mistakes.append(
                    f"{name} holds {alias!r}; write alias=postgresql://…, the alias of at most 20 "
                    "letters, digits, hyphens and underscores, and another one than default"
                )
            found[alias] = self._database(name, url)
        return found

    def database(self, name: str) -> dict[str, object]:
        url = self.text(name, None)
        return self._database(name, url) if url else {}

    def _database(self, name: str, url: str) -> dict[str, object]:
        try:
            parts = urlsplit(url)
            port = parts.port or 5432
        except ValueError:
            self.mistakes.append(f"{name} is not a URL")
            return {}
        if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
            self.mistakes.append(f"{name} must look like postgresql://user:password@host:5432/name")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.strip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(port),
        }


def _pairs(text: str, prefix: str) -> dict[str, str]:
    """Raises ValueError for a word without an equals sign."""
    words = [word.strip() for word in re.split(rf"[\n,]\s*(?={re.escape(prefix)})", text)]
    return dict(_pair(word) for word in words if word)


def _pair(word: str) -> tuple[str, str]:
    name, separator, value = word.partition("=")
    if not separator:
        raise ValueError
    return name.strip(), value.strip()


def _is_fernet_key(key: str) -> bool:
    try:
        return len(base64.urlsafe_b64decode(key)) == 32
    except (binascii.Error, ValueError):
        return False


class Engine:
    """What Sluice itself asks of the environment, in whichever project it is installed.

    Durations carry their unit in the name.
    """

    def __init__(self, r: Reader) -> None:
        self.celery_broker_url = r.text("SLUICE_CELERY_BROKER_URL")
        self.kafka_bootstrap = r.text("SLUICE_KAFKA_BOOTSTRAP", "")
        self.environment = r.text("SLUICE_ENVIRONMENT")
        self.deployment = r.text("SLUICE_DEPLOYMENT", "sluice")
        self.installed_integrations = r.words("SLUICE_INTEGRATIONS")
        self.lease_seconds = r.seconds("SLUICE_LEASE_SECONDS", 10.0)
        self.publish_lock_seconds = r.seconds("SLUICE_PUBLISH_LOCK_SECONDS", 5.0)
        self.files_root = r.folder("SLUICE_FILES_ROOT")
        self.encryption_keys = r.keys("SLUICE_ENCRYPTION_KEYS")
        self.notify_emails = r.words("SLUICE_NOTIFY_EMAILS")
        self._read_access(r)
        self._read_bulk(r)

    def _read_access(self, r: Reader) -> None:
        self.metrics_token = r.text("SLUICE_METRICS_TOKEN", "")
        self.metrics_addresses = r.networks("SLUICE_METRICS_ADDRESSES")
        self.proxies = r.count("SLUICE_PROXIES", 0)
        self.login_url = r.text("SLUICE_LOGIN_URL", "")
        self.login_tries = r.count("SLUICE_LOGIN_TRIES", 10)
        self.login_window_seconds = r.seconds("SLUICE_LOGIN_WINDOW_SECONDS", 900.0)
        self._read_second_factors(r)
        self._read_company_login(r)

    def _read_second_factors(self, r: Reader) -> None:
        words = r.words("SLUICE_SECOND_FACTORS", "app,passkey")
        if unknown := set(words) - SECOND_FACTORS:
            r.mistakes.append(
                f"SLUICE_SECOND_FACTORS names {', '.join(sorted(unknown))}; write app, passkey, "
                "both by a comma, or none"
            )
        self.second_factors = tuple(word for word in words if word != "none")
        self.second_factor_roles = r.words("SLUICE_SECOND_FACTOR_ROLES")

    def _read_company_login(self, r: Reader) -> None:
        self.oidc_issuer = r.issuer("SLUICE_OIDC_ISSUER")
        self.oidc_client_id = r.text("SLUICE_OIDC_CLIENT_ID", None if self.oidc_issuer else "")
        self.oidc_client_secret = r.text("SLUICE_OIDC_CLIENT_SECRET", "")
        self.oidc_label = r.text("SLUICE_OIDC_LABEL", "") or "Company login"
        self.oidc_scopes = " ".join(r.words("SLUICE_OIDC_SCOPES", "openid,profile,email"))
        self.oidc_name_claim = r.text("SLUICE_OIDC_NAME_CLAIM", "preferred_username")
        self.oidc_groups_claim = r.text("SLUICE_OIDC_GROUPS_CLAIM", "groups")
        self.oidc_recheck_minutes = r.count("SLUICE_OIDC_RECHECK_MINUTES", 15)
        self.oidc_token_days = r.count("SLUICE_OIDC_TOKEN_DAYS", 90)
        self.oidc_skew_seconds = r.count("SLUICE_OIDC_SKEW_SECONDS", 30)
        self.local_login = r.flag("SLUICE_LOCAL_LOGIN", default=True)
        if not (self.local_login or self.oidc_issuer or self.login_url):
            r.mistakes.append(
                "SLUICE_LOCAL_LOGIN is 0, and nobody could log in; set SLUICE_OIDC_ISSUER, too"
            )

    def _read_bulk(self, r: Reader) -> None:
        self.spark_master = r.text("SLUICE_SPARK_MASTER", "")
        self.spark_memory_mb = r.count("SLUICE_SPARK_MEMORY_MB", 1_024)
        self.spark_conf = r.pairs("SLUICE_SPARK_CONF", "spark.")
        self.spark_jars = r.folder("SLUICE_SPARK_JARS")
        self.spark_ui = r.flag("SLUICE_SPARK_UI", default=False)
        self.bulk_root = r.folder("SLUICE_BULK_ROOT")
        self.bulk_upload_mb = r.count("SLUICE_BULK_UPLOAD_MB", 500)

    def secrets(self) -> dict[str, tuple[str, ...]]:
        """The secrets that must not be those of the example, by the names of their variables."""
        return {"SLUICE_ENCRYPTION_KEYS": self.encryption_keys}


class Env(Engine):
    """The same with what an installation of Sluice alone has to say: its database, its site."""

    def __init__(self, r: Reader) -> None:
        self.database = r.database("SLUICE_DATABASE_URL")
        self.other_databases = r.databases("SLUICE_OTHER_DATABASES")
        super().__init__(r)
        self.log_level = r.choice("SLUICE_LOG_LEVEL", LOG_LEVELS, "INFO")
        self.email_url = r.text("SLUICE_EMAIL_URL", "")
        self.from_email = r.text("SLUICE_FROM_EMAIL", "sluice@localhost")
        self.secret_key = r.text("SLUICE_SECRET_KEY")
        self.debug = r.flag("SLUICE_DEBUG", default=False)
        self.allowed_hosts = r.words("SLUICE_ALLOWED_HOSTS", "localhost,127.0.0.1")
        self.csrf_trusted_origins = r.words("SLUICE_CSRF_TRUSTED_ORIGINS")
        self.https = r.flag("SLUICE_HTTPS", default=False)
        self.https_hsts_seconds = r.count("SLUICE_HTTPS_HSTS_SECONDS", 3_600)
        self.session_idle_minutes = r.count("SLUICE_SESSION_IDLE_MINUTES", 480)
        self.session_hours = r.count("SLUICE_SESSION_HOURS", 24)
        self.static_root = Path(r.text("SLUICE_STATIC_ROOT", "static"))

    def secrets(self) -> dict[str, tuple[str, ...]]:
        return {"SLUICE_SECRET_KEY": (self.secret_key,), **super().secrets()}


E = TypeVar("E", bound=Engine)


def _public(env: Engine) -> list[str]:
    """Secrets of this installation that everybody can read in the example."""
    return [
        f"{name} holds the public value of .env.example; write one of your own, or "
        f"SLUICE_ENVIRONMENT=development if this is a laptop"
        for name, values in env.secrets().items()
        if PUBLIC & set(values)
    ]


def read(variables: Mapping[str, str] | None = None) -> Env:
    """Read the environment (or `variables`). Raises SettingsError with every mistake in it."""
    return _read(Env, variables)


def read_engine(variables: Mapping[str, str] | None, said: Mapping[str, str]) -> Engine:
    """The same of what Sluice asks in any project; what is `said` counts before the environment."""
    return _read(Engine, {**(os.environ if variables is None else variables), **said})


def _read(kind: type[E], variables: Mapping[str, str] | None) -> E:
    r = Reader(os.environ if variables is None else variables)
    env = kind(r)
    if env.environment not in WITHOUT_SECRETS:
        r.mistakes += _public(env)
    elif not (env.metrics_token or env.metrics_addresses):
        env.metrics_addresses = LOOPBACK
    if r.mistakes:
        raise SettingsError(r.mistakes)
    return env


def admin_password(variables: Mapping[str, str] | None = None) -> str:
    """The first administrator's password, for `devstack_seed` alone; empty when there is none."""
    return Reader(os.environ if variables is None else variables).text("SLUICE_ADMIN_PASSWORD", "")


def referred(name: str, variables: Mapping[str, str] | None = None) -> str | None:
    """A secret that a configuration file refers to by the name of its variable."""
    return (os.environ if variables is None else variables).get(name)
