"""Cron tasks of something else: nobody but this app may import them."""

raise RuntimeError("orders.crontasks was imported")
