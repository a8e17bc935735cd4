"""Documents and the structures they belong to: keys, versions, verdicts, JSON text.

Without Django, so that bulk jobs judge a document by the same code as the engine does.
"""
