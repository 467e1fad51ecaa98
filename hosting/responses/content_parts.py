"""The parts of message contents and of tool outputs as they come over the wire, brought to one form.

What is checked here need not be checked again when parts become agent contents: text is a string, a URL is one that may
be fetched, inline data is what it says (see media).
"""

from typing import Any, cast

from hosting.responses.errors import InvalidRequest
from hosting.responses.fields import Fields
from hosting.responses.media import check_url, decode_inline

__all__ = [
    "INPUT_PARTS",
    "check_outputs",
    "check_result",
    "normalize_loose_part",
    "normalize_output",
    "normalize_parts",
    "normalize_screenshot",
    "text_part",
]

type Json = dict[str, Any]

_USER_PARTS = ("input_text", "input_image", "input_file", "input_audio")
_ASSISTANT_PARTS = ("output_text", "refusal")
_OUTPUT_PARTS = ("input_text", "input_image", "input_file")

INPUT_PARTS = frozenset({"text", "output_text", "refusal", *_USER_PARTS})
"""Types that are parts, not items: the second seed's clients put them straight into `input`."""


def text_part(role: str, text: str) -> Json:
    """A text as a part of a message of `role`; annotations and logprobs are required in what an assistant says."""
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}


def normalize_parts(role: str, content: object, path: str, *, allow_private_urls: bool = False) -> list[Json]:
    """The content of a message as a list of parts; a string becomes one text part.

    Raises InvalidRequest for a part that messages of this role can't have: what an assistant said is `output_text` or
    `refusal`, everybody else sends `input_*`. A bare `text` fits both.
    """
    if isinstance(content, str):
        return [text_part(role, content)]
    if not isinstance(content, list):
        raise InvalidRequest.wrong_type(path, "a string or an array of parts", content)
    supported = _ASSISTANT_PARTS if role == "assistant" else _USER_PARTS
    return [
        _normalize_part(part, f"{path}[{index}]", supported, allow_private_urls)
        for index, part in enumerate(cast("list[object]", content))
    ]


def normalize_output(output: object, path: str, *, allow_private_urls: bool = False) -> str | list[Json]:
    """The output of a tool: a string, or parts (text, images, files)."""
    if isinstance(output, str):
        return output
    if not isinstance(output, list):
        raise InvalidRequest.wrong_type(path, "a string or an array of parts", output)
    return [
        _normalize_part(part, f"{path}[{index}]", _OUTPUT_PARTS, allow_private_urls)
        for index, part in enumerate(cast("list[object]", output))
    ]


def normalize_loose_part(value: object, path: str, *, allow_private_urls: bool = False) -> Json:
    """A part that stands in `input` without a message around it: the user's, whatever kind of text it is."""
    part = Fields(value, path)
    if part.value("type") == "output_text":
        value = {"type": "text", "text": part.value("text")}
    return _normalize_part(value, path, _USER_PARTS, allow_private_urls)


def _normalize_part(value: object, path: str, supported: tuple[str, ...], allow_private_urls: bool) -> Json:
    part = Fields(value, path)
    kind = part.required_string("type")
    if kind == "text":
        kind = supported[0]
    if kind not in supported:
        raise InvalidRequest.not_one_of(part.path("type"), kind, supported)
    known: Json = {"type": kind}
    match kind:
        case "input_text":
            known["text"] = _text(part)
        case "output_text":
            known["text"] = _text(part)
            known["annotations"] = _objects(part, "annotations")
            known["logprobs"] = _objects(part, "logprobs")
        case "refusal":
            known["refusal"] = part.required_string("refusal", empty=True)
        case "input_image":
            known |= _image(part, allow_private_urls)
        case "input_file":
            known |= _file(part, allow_private_urls)
        case _:
            known |= _audio(part)
    return known


def normalize_screenshot(output: Fields, *, allow_private_urls: bool = False) -> Json:
    """The output of a computer call: an image, or nothing when there was none to take."""
    image = _image(output, allow_private_urls) if output.has("image_url") or output.has("file_id") else {}
    image.pop("detail", None)
    return {"type": "computer_screenshot"} | image


def check_outputs(call: Fields, *, allow_private_urls: bool = False) -> None:
    """The images that a code interpreter has made: each becomes a content with its URL, as one of a message does."""
    outputs = call.value("outputs")
    for index, value in enumerate(cast("list[object]", outputs) if isinstance(outputs, list) else []):
        if isinstance(value, dict) and isinstance(url := cast("Json", value).get("url"), str):
            _check_image(url, f"{call.path('outputs')}[{index}].url", allow_private_urls)


def check_result(call: Fields, *, allow_private_urls: bool = False) -> None:
    """The image that was made: base64, or a URL."""
    result = call.value("result")
    if isinstance(result, str) and "://" in result[:16]:
        _check_image(result, call.path("result"), allow_private_urls)


def _check_image(url: str, param: str, allow_private_urls: bool) -> None:
    if url[:5].lower() == "data:":
        decode_inline("data:" + url[5:], param, image=True)
    else:
        check_url(url, param, allow_private=allow_private_urls)


def _text(part: Fields) -> str:
    return part.required_string("text", empty=True)


def _objects(part: Fields, name: str) -> list[Json]:
    values = part.array(name) or []
    for index, value in enumerate(values):
        Fields(value, f"{part.path(name)}[{index}]")
    return values


def _image(part: Fields, allow_private_urls: bool) -> Json:
    image: Json = {"detail": part.string("detail") or "auto"}
    if file_id := part.string("file_id"):
        image["file_id"] = file_id
    # Chat Completions' form {"url": ...} is common enough in the wild to be worth a line.
    nested = part.nested("image_url") if isinstance(part.value("image_url"), dict) else None
    url = part.string("image_url") if nested is None else nested.required_string("url")
    if url:
        param = part.path("image_url")
        if url[:5].lower() == "data:":
            url = decode_inline("data:" + url[5:], param, image=True).uri
        else:
            check_url(url, param, allow_private=allow_private_urls)
        image["image_url"] = url
    elif not file_id:
        raise InvalidRequest.missing(part.path("image_url"))
    return image


def _file(part: Fields, allow_private_urls: bool) -> Json:
    file: Json = {}
    filename = part.string("filename")
    if filename:
        file["filename"] = filename
    if detail := part.string("detail"):
        file["detail"] = detail
    if file_id := part.string("file_id"):
        file["file_id"] = file_id
    if data := part.string("file_data"):
        file["file_data"] = decode_inline(data, part.path("file_data"), filename=filename).uri
    if url := part.string("file_url"):
        if url[:5].lower() == "data:":
            file["file_data"] = decode_inline("data:" + url[5:], part.path("file_url"), filename=filename).uri
        else:
            check_url(url, part.path("file_url"), allow_private=allow_private_urls)
            file["file_url"] = url
    if not file.keys() & {"file_id", "file_data", "file_url"}:
        raise InvalidRequest.missing(part.path("file_data"))
    return file


def _audio(part: Fields) -> Json:
    audio = part.nested("input_audio")
    if audio is None:
        raise InvalidRequest.missing(part.path("input_audio"))
    format = audio.one_of("format", ("wav", "mp3"))
    if format is None:
        raise InvalidRequest.missing(audio.path("format"))
    media_type = "audio/mpeg" if format == "mp3" else "audio/wav"
    data = audio.required_string("data")
    uri = data if data.startswith("data:") else f"data:{media_type};base64,{data}"
    payload = decode_inline(uri, audio.path("data")).uri.partition(",")[2]
    return {"input_audio": {"data": payload, "format": format}}
