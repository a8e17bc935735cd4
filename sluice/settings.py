"""Sluice's part of a Django project's settings: one call on the last line of the module.

The installation of this checkout (config.settings) is made by the same call as any other project.
"""

import importlib
import json
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from sluice import env as environment
from sluice import project as around
from sluice.database import complete_session
from sluice.env import Engine, SettingsError

ROUTER: Final = "integration.store.reads.Router"
FRAME: Final = "console.layout.context.frame"
FRAME_BELOW_A_PREFIX: Final = "console.mounting.frame"
# Where a module keeps which of its names came from the environment: who loads it once more finds
# them there, and they are not the module's own words.
ADDED: Final = "_sluice_added"
DJANGO_TEMPLATES: Final = "django.template.backends.django.DjangoTemplates"

FIXED: Final[Mapping[str, object]] = {
    # Sluice shares this project with others: it has neither its addresses nor its beat for itself.
    "SLUICE_IS_GUEST": True,
    # What `celery -A` finds Sluice's Celery app by.
    "SLUICE_APP": "sluice",
    # The one alias whose transactions the engine owns; statements of handlers on others are
    # refused.
    "SLUICE_DATABASE": "default",
    # What a Celery task runs, by its import path: Kafka clients come into being after the fork, so
    # their modules are imported there and not when the worker starts. No setting of an
    # installation.
    "SLUICE_ENGINE": "integration.runs.queues.run_queue",
    "SLUICE_RELAY": "integration.runs.relay.relay_all",
    "CRISPY_TEMPLATE_PACK": "bootstrap5",
    "CRISPY_ALLOWED_TEMPLATE_PACKS": "bootstrap5",
}
# Of Sluice's Celery app alone: a project's own app reads other names.
CELERY: Final[Mapping[str, object]] = {
    "BROKER_CONNECTION_RETRY_ON_STARTUP": True,
    # However long it is away: a worker that gave up would have to be started by a person.
    "BROKER_CONNECTION_MAX_RETRIES": None,
    # Who sends is told at once; what was not sent is sent again by the dispatcher and by beat.
    # Without a limit, whoever sends to a broker that hangs would hang with it.
    "TASK_PUBLISH_RETRY": False,
    "BROKER_TRANSPORT_OPTIONS": {
        "max_retries": 0,
        "socket_connect_timeout": 2.0,
        "socket_timeout": 2.0,
        # An idle consumer asks each second: it notices within twice this that nobody answers.
        "socket_keepalive": True,
        "health_check_interval": 5,
    },
    "TASK_IGNORE_RESULT": True,
    # A run is claimed in the database, never by the broker: a lost Celery task is started again by
    # the dispatcher, so nothing is gained by late acknowledgement and poison loops are avoided.
    "TASK_ACKS_LATE": False,
    "WORKER_PREFETCH_MULTIPLIER": 1,
    # A start must not wait behind an attached run while another worker has a free slot.
    "WORKER_DISABLE_PREFETCH": True,
    "TASK_DEFAULT_QUEUE": "celery",
    "TASK_SERIALIZER": "json",
    "ACCEPT_CONTENT": ["json"],
    "TIMEZONE": "UTC",
    "BEAT_SCHEDULER": "crontasks.beat.LeaderScheduler",
    "BEAT_MAX_LOOP_INTERVAL": 1,
    "WORKER_HIJACK_ROOT_LOGGER": False,
    "WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS": False,
    "TASK_ROUTES": {
        "crontasks.tasks.run_relay": {"queue": "relay"},
        "crontasks.tasks.drive_run": {"queue": "spark"},
    },
}


def sluice_settings(
    project: MutableMapping[str, Any], variables: Mapping[str, str] | None = None
) -> None:
    """Complete a settings module: call it on its last line, with `globals()`.

    What the module sets by itself stands. A SLUICE_ name in it is read as the variable of the same
    name would be, and before it. Raises SettingsError with every mistake.
    """
    said = _said_in(project)
    env = environment.read_engine(variables, said)
    mistakes = around.mistakes(project, env.celery_broker_url)
    if mistakes:
        raise SettingsError(mistakes, "something in this project is in its way")
    read = _read_from(env)
    read["SLUICE_LOGIN_URL"] = env.login_url or around.login_of(project)
    project[ADDED] = frozenset(read) - frozenset(said)
    project.update(read)
    celery = {f"SLUICE_CELERY_{name}": value for name, value in CELERY.items()}
    for name, value in {**FIXED, **celery}.items():
        project.setdefault(name, value)
    project["INSTALLED_APPS"] = around.apps(project["INSTALLED_APPS"], env.installed_integrations)
    complete_session(project["DATABASES"]["default"], env.server_options)
    if env.replica_alias:
        # Before a project's own: they know nothing of it.
        others = [one for one in project.get("DATABASE_ROUTERS", ()) if one != ROUTER]
        project["DATABASE_ROUTERS"] = [ROUTER, *others]
    project["TEMPLATES"] = [_with_frame(engine) for engine in project["TEMPLATES"]]


def is_said_in(module: str, name: str) -> bool:
    """Return whether this settings module sets the name itself, so that no variable counts."""
    names = vars(importlib.import_module(module))
    return name in names and name not in names.get(ADDED, ())


def _said_in(project: Mapping[str, Any]) -> dict[str, str]:
    """The SLUICE_ names that the module sets itself, as the environment would write them."""
    others = {*FIXED, *project.get(ADDED, ())}
    names = [name for name in project if name.startswith("SLUICE_") and name not in others]
    return {name: _as_text(project[name]) for name in names}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return json.dumps(value)
    return "" if value is None else str(value)


def _read_from(env: Engine) -> dict[str, object]:
    """Every setting that the environment decides, by the name that the code asks for."""
    return {
        "SLUICE_CELERY_BROKER_URL": env.celery_broker_url,
        "SLUICE_ENVIRONMENT": env.environment,
        "SLUICE_DEPLOYMENT": env.deployment,
        "SLUICE_INTEGRATIONS": list(env.installed_integrations),
        "SLUICE_ENCRYPTION_KEYS": env.encryption_keys,
        "SLUICE_KAFKA_BOOTSTRAP": env.kafka_bootstrap,
        "SLUICE_LEASE_SECONDS": env.lease_seconds,
        "SLUICE_REPLICA": env.replica_alias,
        "SLUICE_REPLICA_LAG_SECONDS": env.replica_lag_seconds,
        "SLUICE_PUBLISH_LOCK_SECONDS": env.publish_lock_seconds,
        # Endpoints write files below this folder and nowhere else; without it there are none.
        "SLUICE_FILES_ROOT": env.files_root,
        "SLUICE_SPARK_MASTER": env.spark_master,
        "SLUICE_SPARK_MEMORY_MB": env.spark_memory_mb,
        "SLUICE_SPARK_CONF": env.spark_conf,
        "SLUICE_SPARK_JARS": env.spark_jars,
        "SLUICE_SPARK_UI": env.spark_ui,
        "SLUICE_BULK_ROOT": env.bulk_root,
        "SLUICE_BULK_UPLOAD_MB": env.bulk_upload_mb,
        "SLUICE_S3": env.s3,
        "SLUICE_S3_PLACES": list(env.s3_places),
        "SLUICE_METRICS_TOKEN": env.metrics_token,
        "SLUICE_METRICS_ADDRESSES": env.metrics_addresses,
        "SLUICE_OTEL": env.otel,
        "SLUICE_OTEL_SAMPLER": env.otel_sampler,
        "SLUICE_OTEL_RATIO": env.otel_ratio,
        "SLUICE_TRACE_URL": env.trace_url,
        "SLUICE_PROXIES": env.proxies,
        "SLUICE_HTTP_PROXY": env.http_proxy,
        "SLUICE_NO_PROXY": list(env.no_proxy),
        "SLUICE_NOTIFY_EMAILS": list(env.notify_emails),
        "SLUICE_CONSOLE_URL": env.console_url,
        **_logins_from(env),
    }


def _logins_from(env: Engine) -> dict[str, object]:
    """The settings that decide how people log in."""
    return {
        # Nobody could log in with none; Valkey counts in whole seconds.
        "SLUICE_LOGIN_TRIES": max(env.login_tries, 1),
        "SLUICE_LOGIN_WINDOW_SECONDS": max(round(env.login_window_seconds), 1),
        "SLUICE_SECOND_FACTORS": env.second_factors,
        "SLUICE_SECOND_FACTOR_ROLES": env.second_factor_roles,
        "SLUICE_OIDC_ISSUER": env.oidc_issuer,
        "SLUICE_OIDC_CLIENT_ID": env.oidc_client_id,
        "SLUICE_OIDC_CLIENT_SECRET": env.oidc_client_secret,
        "SLUICE_OIDC_LABEL": env.oidc_label,
        "SLUICE_OIDC_SCOPES": env.oidc_scopes,
        "SLUICE_OIDC_NAME_CLAIM": env.oidc_name_claim,
        "SLUICE_OIDC_GROUPS_CLAIM": env.oidc_groups_claim,
        "SLUICE_OIDC_RECHECK_MINUTES": max(env.oidc_recheck_minutes, 1),
        "SLUICE_OIDC_TOKEN_DAYS": env.oidc_token_days,
        "SLUICE_OIDC_SKEW_SECONDS": env.oidc_skew_seconds,
        "SLUICE_LOCAL_LOGIN": env.local_login,
    }


def _with_frame(engine: Mapping[str, Any]) -> dict[str, Any]:
    """The engine with what the console's pages have around them, and other pages have not."""
    options = dict(engine.get("OPTIONS", {}))
    known = list(options.get("context_processors", ()))
    if engine["BACKEND"] == DJANGO_TEMPLATES and FRAME not in known:
        options["context_processors"] = [*known, FRAME_BELOW_A_PREFIX]
    return {**engine, "OPTIONS": options}
