"""The project's users."""
