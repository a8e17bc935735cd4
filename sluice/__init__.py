"""What a Django project takes of Sluice: `sluice.settings`, `sluice.urls`, and `-A sluice`."""
