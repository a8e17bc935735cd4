"""What every test may ask for."""

import os
import sys

from hypothesis import HealthCheck, settings

from devstack import paths, ports
from tests.support.amqp import (  # noqa: F401 - hooks and fixtures are found by name here
    amqp_broker,
)
from tests.support.browser import (  # noqa: F401 - hooks and fixtures are found by name here
    chromium_program,
    pytest_collection_modifyitems,
    pytest_terminal_summary,
)
from tests.support.emptying import (  # noqa: F401 - hooks and fixtures are found by name here
    django_db_setup,
)
from tests.support.fast_files import (  # noqa: F401 - hooks and fixtures are found by name here
    pytest_ignore_collect,
)
from tests.support.kafka_world import _topics_go  # noqa: F401 - see above
from tests.support.kept_together import (  # noqa: F401 - hooks and fixtures are found by name here
    pytest_xdist_make_scheduler,
)
from tests.support.loaded_in_turns import (  # noqa: F401 - hooks and fixtures are found by name here
    pytest_collectstart,
)
from tests.support.object_storage import (  # noqa: F401 - fixtures are found by name here
    object_storage,
)
from tests.support.registry import (  # noqa: F401 - hooks and fixtures are found by name here
    schema_registry,
    small_registry,
)
from tests.support.reported import (  # noqa: F401 - hooks and fixtures are found by name here
    pytest_report_to_serializable,
)
from tests.support.secured_kafka import (  # noqa: F401 - hooks and fixtures are found by name here
    _no_secured_kafka_is_left,
    pytest_runtest_teardown,
    secured_kafka,
)
from tests.support.servers import (  # noqa: F401 - hooks and fixtures are found by name here
    child_environment,
    django_db_modify_db_settings,
    kafka,
    postgres,
    pytest_runtest_makereport,
    servers,
    unstarted_servers,
    valkey,
)

if tester := os.environ.get("PYTEST_XDIST_WORKER"):
    # Testers choose at the same time, and listen later: each has ports of its own.
    testers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    ports.CHOICES = ports.CHOICES[int(tester.removeprefix("gw")) :: testers]

# Whatever the shell says: a process that has to compile its modules begins two seconds later.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What it reads in our sources and in Unicode is told by contents, and takes seconds to find again.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(paths.cached("hypothesis")))

# How long an example takes is the machine's affair, and how long its values take to be drawn:
# on a busy one, 200 ms say nothing, and no second does.
settings.register_profile("sluice", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sluice")
