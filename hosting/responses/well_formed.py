"""Halves of surrogate pairs: Python strings and JSON can hold them, UTF-8 and the storage services can't."""

__all__ = ["well_formed"]


def well_formed(text: str) -> str:
    """`text` with halves that belong together joined, and others replaced by U+FFFD. Mostly `text` itself.

    A client makes a half by cutting a string inside an emoji, a model by streaming an emoji in two pieces.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
