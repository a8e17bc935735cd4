"""Benchmarks: one JSON object per line, measured on real servers against hand-written loops."""
