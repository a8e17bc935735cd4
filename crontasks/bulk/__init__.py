"""Bulk jobs: asking for a run, and running it in this process's Spark session."""
