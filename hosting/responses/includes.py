"""`include`: what a client wants to have besides. Checked against the names of OpenAI's API, in bodies and in queries.

Nothing depends on it here: what it asks for is in the items whenever the agent gives it. An unknown name is refused all the
same, as at OpenAI, because its client waits for something that will not come.
"""

from collections.abc import Sequence

from hosting.responses.errors import InvalidRequest
from hosting.responses.fields import Fields

__all__ = ["INCLUDABLE", "check_includes", "parse_include"]

INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)


def parse_include(body: Fields) -> tuple[str, ...]:
    """The names in `include`, each once. Raises InvalidRequest, whose `param` is such as `include[1]`."""
    values = body.strings("include")
    for index, value in enumerate(values):
        _check(value, f"include[{index}]")
    return tuple(dict.fromkeys(values))


def check_includes(values: Sequence[str]) -> None:
    """Check the values that a query has for `include`. Raises InvalidRequest with param `include`."""
    for value in values:
        _check(value, "include")


def _check(value: str, param: str) -> None:
    if value not in INCLUDABLE:
        raise InvalidRequest.not_one_of(param, value, INCLUDABLE)
