"""Django's settings, built from the environment by config.env."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from config import env as environment

ENV = environment.read()
BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = ENV.secret_key
DEBUG = ENV.debug
ALLOWED_HOSTS = list(ENV.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENV.csrf_trusted_origins)

SLUICE_ENVIRONMENT = ENV.environment
SLUICE_DEPLOYMENT = ENV.deployment
SLUICE_ENCRYPTION_KEYS = ENV.encryption_keys
SLUICE_KAFKA_BOOTSTRAP = ENV.kafka_bootstrap
SLUICE_LEASE_SECONDS = ENV.lease_seconds
# Endpoints write files below this folder and nowhere else; without it there are none.
SLUICE_FILES_ROOT = ENV.files_root
SLUICE_SPARK_MASTER = ENV.spark_master
SLUICE_SPARK_MEMORY_MB = ENV.spark_memory_mb
SLUICE_SPARK_CONF = ENV.spark_conf
# Where the set-up on one machine puts them; without any, jobs that need no Kafka run all the same.
_FETCHED_JARS = BASE_DIR / ".lib" / "spark"
SLUICE_SPARK_JARS = ENV.spark_jars or (_FETCHED_JARS if _FETCHED_JARS.is_dir() else None)
SLUICE_SPARK_UI = ENV.spark_ui
SLUICE_BULK_ROOT = ENV.bulk_root
SLUICE_BULK_UPLOAD_MB = ENV.bulk_upload_mb
SLUICE_PUBLISH_LOCK_SECONDS = ENV.publish_lock_seconds
SLUICE_METRICS_TOKEN = ENV.metrics_token
SLUICE_METRICS_ADDRESSES = ENV.metrics_addresses
SLUICE_PROXIES = ENV.proxies
# Nobody could log in with none; Valkey counts in whole seconds.
SLUICE_LOGIN_TRIES = max(ENV.login_tries, 1)
SLUICE_LOGIN_WINDOW_SECONDS = max(round(ENV.login_window_seconds), 1)
SLUICE_NOTIFY_EMAILS = list(ENV.notify_emails)
# The one alias whose transactions the engine owns; statements of handlers on others are refused.
SLUICE_DATABASE = "default"
# What a Celery task runs, by its import path: Kafka clients come into being after the fork, so
# their modules are imported there and not when the worker starts. No setting of an installation.
SLUICE_ENGINE = "integration.runs.queues.run_queue"
SLUICE_RELAY = "integration.runs.relay.relay_all"

INSTALLED_APPS = [
    "integration",
    "crontasks",
    "console",
    *ENV.installed_integrations,
    "django_celery_beat",
    "crispy_forms",
    "crispy_bootstrap5",
    "django_filters",
    "django_tables2",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
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

# The engine's sessions die soon after their process: PostgreSQL itself looks whether the client
# is still there, also in the middle of a statement, and TCP keepalives find a vanished host.
POSTGRESQL = {
    # A fresh session reads the catalogue anew, so the first look at each table takes longer.
    "CONN_MAX_AGE": 600,
    "CONN_HEALTH_CHECKS": True,
    "OPTIONS": {
        # Compiling pays where a statement reads for long, and is chosen by a guess: among a
        # million failures the dispatcher's look took 2,860 ms with it, 7 ms without.
        "options": "-c client_connection_check_interval=500ms -c timezone=UTC -c jit=off",
        "connect_timeout": 5,
        "keepalives": 1,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": "sluice",
        # Binding on the server with statements prepared at their fifth use: a handler's
        # upsert costs 57 µs instead of 109 µs with Django's default (measured in bench/).
        "server_side_binding": True,
        "prepare_threshold": 5,
    },
}
# Those beside the first take part in two-phase commits; Sluice has no tables in them.
DATABASES = {
    alias: {**where, **POSTGRESQL}
    for alias, where in {"default": ENV.database, **ENV.other_databases}.items()
}
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

CELERY_BROKER_URL = ENV.celery_broker_url
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# However long it is away: a worker that gave up would have to be started by a person.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# Who sends is told at once; what was not sent is sent again by the dispatcher and by beat. Without
# a limit, whoever sends to a broker that hangs would hang with it.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "max_retries": 0,
    "socket_connect_timeout": 2.0,
    "socket_timeout": 2.0,
    # An idle consumer asks each second: it notices within twice this that nobody answers.
    "socket_keepalive": True,
    "health_check_interval": 5,
}
CELERY_TASK_IGNORE_RESULT = True
# A run is claimed in the database, never by the broker: a lost Celery task is started again by
# the dispatcher, so nothing is gained by late acknowledgement and poison loops are avoided.
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A start must not wait behind an attached run while another worker has a free slot.
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "crontasks.beat.LeaderScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TASK_ROUTES = {
    "crontasks.tasks.run_relay": {"queue": "relay"},
    "crontasks.tasks.drive_run": {"queue": "spark"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": "config.logs.LogLines",
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
    },
}

CRISPY_ALLOWED_TEMPLATE_PACKS = "bootstrap5"
CRISPY_TEMPLATE_PACK = "bootstrap5"
DJANGO_TABLES2_TEMPLATE = "console/layout/_table.html"
