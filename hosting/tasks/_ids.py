"""The grammar of task and input ids, checked at the API. Inside Table keys ids appear as digests only, so that what the
grammar allows is never more than what storage takes."""

import re
import secrets

__all__ = ["check_id", "check_name", "new_input_id", "new_task_id"]

_ID = re.compile(r"[A-Za-z0-9\-_.:]{1,256}", re.ASCII)
_NAME_LENGTH = 256


def check_id(value: object, what: str) -> str:
    """`value`, when it is 1 to 256 of `A-Z a-z 0-9 - _ . :`. Raises ValueError that names `what`."""
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise ValueError(f"{what} must be 1 to 256 characters out of A-Z a-z 0-9 - _ . : and is {value!r}")
    return value


def check_name(value: object) -> str:
    """`value`, when it can name a task. Raises ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a task needs a name: name='...'")
    if len(value) > _NAME_LENGTH:
        raise ValueError(f"the name of a task has at most {_NAME_LENGTH} characters, this one has {len(value)}")
    return value


def new_task_id() -> str:
    return secrets.token_hex(16)


def new_input_id() -> str:
    return f"input-{secrets.token_hex(16)}"
