"""The only reader of the process environment: typed settings, every mistake reported at once."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from sluice.variables import Reader

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# Names of OTEL_TRACES_SAMPLER, the standard's default last.
SAMPLERS = (
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_off",
    "parentbased_traceidratio",
    "parentbased_always_on",
)
# Whoever has installed the wheel has no .env.example; the page is made of it.
FOUND_IN_ENV_FILE = (
    "see the page Settings of the documentation (.env.example in a checkout) for every variable, "
    "its meaning and a working value"
)


class SettingsError(Exception):
    """The environment does not describe a Sluice installation; lists every mistake."""

    code = "BAD_SETTINGS"

    def __init__(self, mistakes: list[str], where: str = FOUND_IN_ENV_FILE) -> None:
        lines = "\n".join(f"  - {mistake}" for mistake in mistakes)
        super().__init__(f"Sluice cannot start; {where}:\n{lines}")
        self.mistakes = mistakes


# With a slash at the end: what only begins alike is another place.
S3_PLACE: Final = re.compile(r"s3a?://[A-Za-z0-9.\-_]+/([^?*\[\s]*/)?")
# Environments where nothing is worth a secret of its own.
WITHOUT_SECRETS: Final = frozenset({"development", "test"})
# Readers of the figures of a laptop where nothing else is said: itself.
LOOPBACK: Final = ("127.0.0.0/8", "::1")
# A piece of a key would be a key that is easily guessed.
SHORTEST_KEY: Final = 20
SECOND_FACTORS: Final = frozenset({"app", "passkey", "none"})
# Values of .env.example, so that it works as it stands.
PUBLIC: Final = frozenset(
    {
        "for-a-laptop-only-replace-it-everywhere-else-with-your-own",
        "dGhpcy1rZXktaXMtcHVibGljLW1ha2UteW91ci1vd24=",
    }
)


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
        # libpq's own variable: what one command says of its sessions.
        self.server_options = r.text("PGOPTIONS", "")
        self.lease_seconds = r.seconds("SLUICE_LEASE_SECONDS", 10.0)
        # The alias of a standby that pages may read.
        self.replica_alias = r.text("SLUICE_REPLICA", "")
        self.replica_lag_seconds = r.seconds("SLUICE_REPLICA_LAG_SECONDS", 10.0)
        self.publish_lock_seconds = r.seconds("SLUICE_PUBLISH_LOCK_SECONDS", 5.0)
        self.files_root = r.folder("SLUICE_FILES_ROOT")
        self.encryption_keys = r.keys("SLUICE_ENCRYPTION_KEYS")
        self.notify_emails = r.words("SLUICE_NOTIFY_EMAILS")
        self.console_url = r.page("SLUICE_CONSOLE_URL")
        self._read_access(r)
        self._read_tracing(r)
        self._read_bulk(r)

    def _read_access(self, r: Reader) -> None:
        self.metrics_token = r.text("SLUICE_METRICS_TOKEN", "")
        self.metrics_addresses = r.networks("SLUICE_METRICS_ADDRESSES")
        self.proxies = r.count("SLUICE_PROXIES", 0)
        self.http_proxy = r.proxy("SLUICE_HTTP_PROXY")
        self.no_proxy = r.words("SLUICE_NO_PROXY")
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
        if self.second_factor_roles and not self.second_factors:
            r.mistakes.append(
                "SLUICE_SECOND_FACTOR_ROLES names roles, but SLUICE_SECOND_FACTORS is none; their "
                "people could set up no second factor, and would be locked out"
            )

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

    def _read_tracing(self, r: Reader) -> None:
        self.trace_url = r.template("SLUICE_TRACE_URL", "{trace_id}")
        # Three standard variables, which OpenTelemetry reads, too: what they say is asked of every
        # message, and by its own means that takes longer than the message.
        sampler = r.text("OTEL_TRACES_SAMPLER", SAMPLERS[-1])
        ratio, is_off = r.text("OTEL_TRACES_SAMPLER_ARG", "1"), r.text("OTEL_SDK_DISABLED", "")
        wanted = r.flag("SLUICE_OTEL", default=False) and is_off.lower() not in {"true", "1"}
        self.otel_sampler, self.otel_ratio = sampler.lower(), 1.0
        if wanted:
            r.need_package("SLUICE_OTEL", "opentelemetry.exporter.otlp.proto.http", "otel")
            if self.otel_sampler not in SAMPLERS:
                names = ", ".join(SAMPLERS)
                r.mistakes.append(f"OTEL_TRACES_SAMPLER is {sampler!r}; write one of {names}")
            self.otel_ratio = r.share("OTEL_TRACES_SAMPLER_ARG", ratio)
        self.otel = wanted

    def _read_bulk(self, r: Reader) -> None:
        self.spark_master = r.text("SLUICE_SPARK_MASTER", "")
        self.spark_memory_mb = r.count("SLUICE_SPARK_MEMORY_MB", 1_024)
        self.spark_conf = r.pairs("SLUICE_SPARK_CONF", "spark.")
        self.spark_jars = r.folder("SLUICE_SPARK_JARS")
        self.spark_ui = r.flag("SLUICE_SPARK_UI", default=False)
        self.bulk_root = r.folder("SLUICE_BULK_ROOT")
        self.bulk_upload_mb = r.count("SLUICE_BULK_UPLOAD_MB", 500)
        self.s3 = r.s3()
        self.s3_places = r.words("SLUICE_S3_PLACES")
        for place in self.s3_places:
            if not S3_PLACE.fullmatch(place):
                r.mistakes.append(f"SLUICE_S3_PLACES names {place!r}; write s3://bucket/folder/")

    def secrets(self) -> dict[str, tuple[str, ...]]:
        """The secrets that must not be those of the example, by the names of their variables."""
        return {"SLUICE_ENCRYPTION_KEYS": self.encryption_keys}


class Env(Engine):
    """The same with what an installation of Sluice alone has to say: its database, its site."""

    REPLICA: Final = "replica"

    def __init__(self, r: Reader) -> None:
        self.database = r.database("SLUICE_DATABASE_URL")
        self.other_databases = r.databases("SLUICE_OTHER_DATABASES")
        self.replica = r.replica("SLUICE_DATABASE_REPLICA_URL")
        if self.replica and self.REPLICA in self.other_databases:
            r.mistakes.append(
                f"SLUICE_OTHER_DATABASES has a database {self.REPLICA!r}: that is the name of the "
                "one of SLUICE_DATABASE_REPLICA_URL; give it another"
            )
        super().__init__(r)
        self.log_level = r.choice("SLUICE_LOG_LEVEL", LOG_LEVELS, "INFO")
        self.email_url = r.mail("SLUICE_EMAIL_URL")
        self.from_email = r.text("SLUICE_FROM_EMAIL", "sluice@localhost")
        self.secret_key = r.text("SLUICE_SECRET_KEY")
        self.secret_key_fallbacks = r.words("SLUICE_SECRET_KEY_FALLBACKS")
        if any(len(key) < SHORTEST_KEY for key in self.secret_key_fallbacks):
            r.mistakes.append(
                f"SLUICE_SECRET_KEY_FALLBACKS has a key of fewer than {SHORTEST_KEY} characters; "
                "keys are separated by commas, so one that holds a comma cannot stand there"
            )
        self.debug = r.flag("SLUICE_DEBUG", default=False)
        self.allowed_hosts = r.words("SLUICE_ALLOWED_HOSTS", "localhost,127.0.0.1")
        self.csrf_trusted_origins = r.words("SLUICE_CSRF_TRUSTED_ORIGINS")
        self.https = r.flag("SLUICE_HTTPS", default=False)
        self.https_hsts_seconds = r.count("SLUICE_HTTPS_HSTS_SECONDS", 3_600)
        self.session_idle_minutes = r.count("SLUICE_SESSION_IDLE_MINUTES", 480)
        self.session_hours = r.count("SLUICE_SESSION_HOURS", 24)
        self.static_root = Path(r.text("SLUICE_STATIC_ROOT", "static"))

    def secrets(self) -> dict[str, tuple[str, ...]]:
        own = {
            "SLUICE_SECRET_KEY": (self.secret_key,),
            "SLUICE_SECRET_KEY_FALLBACKS": self.secret_key_fallbacks,
        }
        return own | super().secrets()


E = TypeVar("E", bound=Engine)


def _public(env: Engine) -> list[str]:
    """Secrets of this installation that everybody can read in the example."""
    return [
        f"{name} holds the public value of the example; write one of your own, or "
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
