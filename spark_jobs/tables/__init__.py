"""Rows of the database on their way into files: what exports and the archive have in common.

`columns` says what is read of a row and what proves that it arrived, `ranges` cuts a table,
`reading` streams rows out of one moment of the database, `parquet` writes and reads Parquet,
`keeping` makes files durable.
"""
