"""What every test may ask for."""

from tests.support.servers import (  # noqa: F401 - fixtures are found by their names here
    child_environment,
    django_db_modify_db_settings,
    kafka,
    postgres,
    servers,
    unstarted_servers,
    valkey,
)
