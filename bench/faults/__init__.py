"""Runs in which things die: their processes, their faults, and what outlives these."""
