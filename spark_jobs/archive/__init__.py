"""The job `archive`: what is long over goes into Parquet by the day, and only then from here.

`planning` says which parts there are, `sources` what is read of one, `writing` writes and verifies
its files, `shelving` brings them to their place, `dropping` takes away exactly what is in them,
and `job` goes from part to part.
"""
