"""The operator's command line: `python -m hosting.admin --help`.

For whoever may read and write the app's storage account, and has no key of the tenant that a task is about: callers who come
by Easy Auth have none. Nothing of the app imports this package.
"""

__all__: list[str] = []
