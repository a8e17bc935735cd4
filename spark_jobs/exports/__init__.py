"""The job `export`: documents of a structure, or tracked messages, into files for others.

`selecting` says which rows and columns, `planning` cuts them into ranges, `shaping` makes values
of them, `writing` writes a range as text, `job` joins them and moves the whole into place.
"""
