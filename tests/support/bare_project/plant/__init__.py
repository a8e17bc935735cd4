"""An app with handlers for Sluice."""
