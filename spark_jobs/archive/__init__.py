"""The job `archive`: what is long over goes into Parquet by the day, and only then from here.

`planning` says which parts there are, `sources` what is read of one, `hiding` what of it is masked.
`writing` writes and verifies its files, by Spark or, masked and into objects, `by_task`. `shelving`
and `object_shelf` bring them to their place, `dropping` takes away exactly what is in them, and
`job` goes from part to part.
"""
