"""The operator surface inside Django admin."""
