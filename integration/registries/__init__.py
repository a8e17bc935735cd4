"""Schema registries: asking them, and keeping what they said."""
