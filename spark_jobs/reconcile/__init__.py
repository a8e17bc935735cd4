"""The reconciliation: what the database says became of each offset of a topic range.

`knowing` reads what it knows of a stretch of offsets, `judging` says what that means for each of
them, `accounting` counts and names them, `job` lets Spark do it for a whole range.
"""
