"""The job `export`: documents of a structure, or tracked messages, into files for others.

`selecting` says which rows and columns, `planning` cuts them into ranges, `shaping` makes values
of them, `reading` reads a range, `writing` writes it as text, `job` joins them and moves the whole
into place; into a queue `to_queue` sends what `staging` keeps.
"""
