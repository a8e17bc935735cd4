"""The replay: messages of a topic range are handed out once more.

`choosing` says which of them, `staging` keeps these in tables of the run's own, and one commit then
gives them back to their queue (`giving`) or rebuilds a structure (`rebuilding`); to another topic
they go range by range (`sending`).
"""
