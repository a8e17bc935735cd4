"""Handlers of something else: nobody but this app may import them."""

raise RuntimeError("orders.handlers was imported")
