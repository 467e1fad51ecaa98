"""Errors that any part of the house may raise."""

__all__ = ["ConfigurationError"]


class ConfigurationError(ValueError):
    """A setting is missing or wrong; the message names it and says what it takes."""
