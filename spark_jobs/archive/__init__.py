"""The job `archive`: what is long over goes into Parquet by the day, and only then from here.

`planning` says which parts there are, `sources` what is read of one, `hiding` what of it is masked.
`writing` writes and verifies its files, by Spark, or by `task_writing` where they are masked or go
into an object storage. `shelving` says how files come to their place: by `disk_shelf` or
`object_shelf`. `unfinished` holds up a run while another has not dropped what it archived.
`dropping` takes away exactly what is in them, and `job` goes from part to part.
"""
