"""`python -m devstack COMMAND`; an old Python, too, has to be able to say that it is too old."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the one place where an older one may come by
    version = ".".join(str(number) for number in sys.version_info[:2])
    sys.exit(
        "Sluice needs Python 3.11 or newer and this is Python " + version + ".\n"
        "Install Python 3.11, then run the command again with it: make PYTHON=python3.11 run."
    )

from devstack.cli import main

sys.exit(main())
