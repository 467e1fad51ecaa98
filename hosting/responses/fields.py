"""Reading the fields of a JSON object, with OpenAI's words when one has the wrong type or value.

An explicit null is the same as an absent field everywhere: that is how several SDKs send what was not set.
"""

from typing import Any, cast

from hosting.responses.errors import InvalidRequest, shortened

__all__ = ["Fields"]


class Fields:
    """One JSON object at `path` (empty for the body itself). Every reader raises InvalidRequest, and nothing else."""

    __slots__ = ("_path", "_values")

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, dict):
            if path:
                raise InvalidRequest.wrong_type(path, "an object", value)
            raise InvalidRequest("The body of the request must be a JSON object.", code="invalid_type")
        self._values = cast("dict[str, Any]", value)
        self._path = path

    def path(self, name: str) -> str:
        """The full path of a field, as an error's `param` names it."""
        return f"{self._path}.{name}" if self._path else name

    def value(self, name: str) -> Any:
        """The field as it is, None when it is absent."""
        return self._values.get(name)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def string(self, name: str, *, max_length: int | None = None) -> str | None:
        """A string of at most `max_length` characters."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise InvalidRequest.wrong_type(self.path(name), "a string", value)
        if max_length is not None and len(value) > max_length:
            raise InvalidRequest(
                f"Invalid '{self.path(name)}': string too long. Expected a string with maximum length {max_length}, "
                f"but got a string with length {len(value)} instead.",
                param=self.path(name),
                code="string_above_max_length",
            )
        return value

    def required_string(self, name: str, *, max_length: int | None = None, empty: bool = False) -> str:
        """A string that has to be there; an empty one counts as absent unless `empty` allows it."""
        value = self.string(name, max_length=max_length)
        if value is None or (not value and not empty):
            raise InvalidRequest.missing(self.path(name))
        return value

    def one_of(self, name: str, supported: tuple[str, ...]) -> str | None:
        """A string out of a closed list."""
        value = self.string(name)
        if value is not None and value not in supported:
            raise InvalidRequest.not_one_of(self.path(name), value, supported)
        return value

    def boolean(self, name: str) -> bool | None:
        """true or false; the strings "true" and "false" are errors, as they are at OpenAI."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, bool):
            raise InvalidRequest.wrong_type(self.path(name), "a boolean", value)
        return value

    def integer(self, name: str, *, minimum: int, maximum: int | None = None) -> int | None:
        """A whole number in the range. A bool is none, and neither is a decimal."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidRequest.wrong_type(self.path(name), "an integer", value)
        self._check_range("integer", name, value, minimum, maximum)
        return value

    def decimal(self, name: str, *, minimum: float, maximum: float) -> float | None:
        """A number in the range, whole or not."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InvalidRequest.wrong_type(self.path(name), "a decimal", value)
        self._check_range("decimal", name, value, minimum, maximum)
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        """A JSON object."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, dict):
            raise InvalidRequest.wrong_type(self.path(name), "an object", value)
        return cast("dict[str, Any] | None", value)

    def array(self, name: str) -> list[Any] | None:
        """A JSON array."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, list):
            raise InvalidRequest.wrong_type(self.path(name), "an array", value)
        return cast("list[Any] | None", value)

    def strings(self, name: str) -> list[str]:
        """An array of strings; empty when the field is absent."""
        values = self.array(name) or []
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise InvalidRequest.wrong_type(f"{self.path(name)}[{index}]", "a string", value)
        return values

    def nested(self, name: str) -> "Fields | None":
        """The fields of a JSON object inside this one."""
        value = self.object(name)
        return None if value is None else Fields(value, self.path(name))

    def _check_range(self, kind: str, name: str, value: float, minimum: float, maximum: float | None) -> None:
        if not value >= minimum:  # also true for NaN, which a program (not a JSON body) could hand in
            side, bound = "below_min", f">= {minimum}"
        elif maximum is not None and value > maximum:
            side, bound = "above_max", f"<= {maximum}"
        else:
            return
        words = "below minimum" if side == "below_min" else "above maximum"
        raise InvalidRequest(
            f"Invalid '{self.path(name)}': {kind} {words} value. Expected a value {bound}, "
            f"but got {shortened(str(value), 40) if isinstance(value, float) else _digits(value)} instead.",
            param=self.path(name),
            code=f"{kind}_{side}_value",
        )


def _digits(value: int) -> str:
    """A number for a message; printing one of millions of digits would cost minutes, or raise."""
    return str(value) if abs(value) < 10**40 else "a number of more than 40 digits"
