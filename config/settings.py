"""Django's settings of this installation, built from the environment by sluice.env."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from sluice import env as environment
from sluice.database import complete_session
from sluice.settings import sluice_settings

ENV = environment.read()
BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = ENV.secret_key
SECRET_KEY_FALLBACKS = list(ENV.secret_key_fallbacks)
DEBUG = ENV.debug
ALLOWED_HOSTS = list(ENV.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENV.csrf_trusted_origins)

# The one project that is Sluice's alone.
SLUICE_IS_GUEST = False
SLUICE_APP = "config"
# Where the set-up on one machine puts them; without any, jobs that need no Kafka run all the same.
_FETCHED_JARS = BASE_DIR / ".lib" / "spark"
SLUICE_SPARK_JARS = ENV.spark_jars or (_FETCHED_JARS if _FETCHED_JARS.is_dir() else None)

INSTALLED_APPS = [
    "integration",
    "crontasks",
    "console",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.layout.security.ContentSecurityPolicy",
    "console.layout.bidi.PlainDirections",
    "console.monitoring.health.Probes",
    "console.http_api.entrance.HttpApi",
    "console.api.entrance.OperatorApi",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.layout.security.NoNulBytes",
    # A cookie with a NUL is refused before anybody asks whose session it names.
    "console.people.session_limits.SessionLimits",
    "console.people.company.rechecks.CompanyRechecks",
    "console.people.second.enforcing.SecondFactorDue",
    "console.layout.standby.Wrote",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.layout.context.frame",
            ]
        },
    }
]

_SESSIONS = {
    # A fresh session reads the catalogue anew, so the first look at each table takes longer.
    "CONN_MAX_AGE": 600,
    "CONN_HEALTH_CHECKS": True,
}
# Binding on the server with statements prepared at their fifth use: a handler's upsert costs 57 µs
# instead of 109 µs with Django's default (measured in bench/).
_OPTIONS = {"server_side_binding": True, "prepare_threshold": 5}
# Those beside the first take part in two-phase commits; Sluice has no tables in them.
DATABASES = {
    alias: {**where, **_SESSIONS, "OPTIONS": {**_OPTIONS, **where["OPTIONS"]}}
    for alias, where in {"default": ENV.database, **ENV.other_databases}.items()
}
for _alias in ENV.other_databases:
    complete_session(DATABASES[_alias], ENV.server_options)
# A standby that pages may read; only `console.layout.standby` ever asks for it.
if ENV.replica:
    _options = {**_OPTIONS, **ENV.replica["OPTIONS"]}
    DATABASES[ENV.REPLICA] = {**ENV.replica, **_SESSIONS, "OPTIONS": _options}
    complete_session(DATABASES[ENV.REPLICA], ENV.server_options)
    SLUICE_REPLICA = ENV.REPLICA
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / ENV.static_root
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # With DEBUG on, files go by their plain names and are found where they lie.
    "staticfiles": {"BACKEND": "console.layout.static_files.HashedFiles"},
}
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_USE_FINDERS = DEBUG
# A payload is edited in a form; Kafka's own default limit of a record is 1 MB.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 2**20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

# None would log everybody out at once.
SLUICE_SESSION_IDLE_MINUTES = max(ENV.session_idle_minutes, 1)
SLUICE_SESSION_HOURS = max(ENV.session_hours, 1)
SESSION_COOKIE_AGE = SLUICE_SESSION_HOURS * 3_600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "console.layout.refusals.stale_form"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"

# Browsers reach the console over TLS, which a proxy ends. It must set this header itself and
# drop what a client sends under its name. Supervisors and scrapers ask without TLS, from inside.
SECURE_SSL_REDIRECT = ENV.https
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENV.https else None
SECURE_HSTS_SECONDS = ENV.https_hsts_seconds if ENV.https else 0
# Whether other hosts of the domain have TLS is not ours to promise.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SESSION_COOKIE_SECURE = ENV.https
CSRF_COOKIE_SECURE = ENV.https

_mail = urlsplit(ENV.email_url)
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if _mail.hostname
    else "django.core.mail.backends.console.EmailBackend"
)
EMAIL_HOST = _mail.hostname or ""
EMAIL_USE_SSL = _mail.scheme == "smtps"
EMAIL_USE_TLS = _mail.scheme == "smtp+tls"
EMAIL_PORT = _mail.port or (465 if EMAIL_USE_SSL else 587 if EMAIL_USE_TLS else 25)
EMAIL_HOST_USER = unquote(_mail.username or "")
EMAIL_HOST_PASSWORD = unquote(_mail.password or "")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = ENV.from_email

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": "sluice.logs.LogLines",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
            "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    "loggers": {
        "django.server": {"level": "WARNING"},
        # It writes the address of every request of an endpoint, with what messages put into it.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        # At DEBUG it writes what proves who began a company login.
        "authlib": {"level": "WARNING"},
    },
}

sluice_settings(globals())
