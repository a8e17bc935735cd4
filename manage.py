#!/usr/bin/env python
"""Django's command line."""

import gc
import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["run_services"]:
        # It collects once, when everything is loaded. Looking for garbage again and again before,
        # where there is next to none, takes a seventh of the time until then.
        gc.disable()
    from django.core.management import execute_from_command_line

    if sys.argv[1:] == ["make_encryption_key"]:
        # The settings cannot be read before there is a key: this command works without them.
        from integration.management.commands.make_encryption_key import new_key

        sys.exit(print(new_key()))
    execute_from_command_line(sys.argv)
