"""The settings as they are, with the bare view's address beside all others."""

from config.settings import *  # noqa: F403 - the very same settings

ROOT_URLCONF = "bench.app.bare"
