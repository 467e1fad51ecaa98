"""Typed values: what comes back is equal, and what would not come back is refused by its path."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from hosting.tasks._codec import Codec, JSONValue, json_size, plain


class Line(BaseModel):
    sku: str
    price: Decimal
    when: datetime


class Order(BaseModel):
    lines: list[Line]
    note: str | None = None
    tags: set[str] = set()


class BigOrder(Order):
    discount: int = 3


@dataclass
class Point:
    x: int
    y: float = 0.0


class Message(TypedDict):
    role: str
    text: str


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=False)
    value: int = Field(validation_alias="in", serialization_alias="out")


def codec(annotation: Any) -> Codec:
    return Codec(lambda: annotation)


ORDER = Order(lines=[Line(sku="a", price=Decimal("1.10"), when=datetime(2026, 1, 2, tzinfo=UTC))], tags={"x", "y", "z"})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, ORDER),
        (list[Order], [ORDER, ORDER]),
        (Order | None, None),
        (Point, Point(1, 2.5)),
        (dict[str, Point], {"a": Point(1)}),
        (Message, {"role": "user", "text": "hi"}),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (tuple[int, str], (1, "a")),
        (bytes, b"plain"),
        (dict, {"a": [1, 2.5, None, True, "x"]}),
        (str, "\ud83d\ude00 \u2028"),
        (Any, [1, {"b": None}]),
        (JSONValue, {"a": 1}),
        (type(None), None),
    ],
)
def test_what_is_encoded_is_decoded_to_an_equal_value(annotation: Any, value: Any):
    assert codec(annotation).decode(codec(annotation).encode(value, "input"), "input") == value


def test_a_field_with_different_aliases_comes_back():
    value = Aliased.model_validate({"in": 3})
    assert codec(Aliased).decode(codec(Aliased).encode(value, "input"), "input") == value


def test_a_dict_is_taken_where_a_model_is_annotated_and_arrives_as_the_model():
    document = codec(Point).encode({"x": 1}, "input")
    assert codec(Point).decode(document, "input") == Point(1)


def test_a_model_where_plain_json_is_annotated_arrives_as_its_fields():
    assert codec(dict).encode(ORDER, "input")["lines"][0]["price"] == "1.10"  # type: ignore[index,call-overload]


def test_the_stored_value_shares_nothing_with_the_callers():
    value = {"a": [1]}
    document = codec(dict).encode(value, "input")
    value["a"].append(2)
    assert document == {"a": [1]}


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (dict, {"a": [{"b": {1, 2}}]}, r"input\['a'\]\[0\]\['b'\] is a set"),
        (dict, {"a": {1: "x"}}, r"input\['a'\] has the key 1"),
        (dict, {"a": float("nan")}, r"input\['a'\] is nan"),
        (list, [1, float("inf")], r"input\[1\] is inf"),
        (Any, datetime(2026, 1, 1), "input is a datetime"),
        (Any, object(), "input is a object"),
        (
            Order,
            {"lines": [{"sku": "a", "price": "x", "when": "2026-01-01T00:00:00Z"}]},
            r"input\['lines'\]\[0\]\['price'\]",
        ),
        (Point, Point(1, float("nan")), r"input\['y'\] is nan"),
        (Point, "nope", "input"),
    ],
)
def test_what_json_cannot_bring_back_is_refused_by_its_path(annotation: Any, value: Any, path: str):
    with pytest.raises((TypeError, ValueError), match=path):
        codec(annotation).encode(value, "input")


def test_a_subclass_whose_fields_would_be_lost_is_refused():
    with pytest.raises(TypeError, match=r"input\['discount'\] would be lost"):
        codec(Order).encode(BigOrder(lines=[]), "input")


def test_a_key_that_a_typed_dict_does_not_have_is_refused():
    with pytest.raises(TypeError, match=r"input\['extra'\] would be lost"):
        codec(Message).encode({"role": "user", "text": "hi", "extra": 1}, "input")


def test_a_value_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested too deeply"):
        codec(list).encode(loop, "input")


def test_a_stored_value_that_the_type_no_longer_takes_is_a_value_error_with_its_path():
    with pytest.raises(ValueError, match=r"input\['x'\]"):
        codec(Point).decode({"x": "many"}, "input")


def test_the_type_is_resolved_when_it_is_first_needed():
    def unresolved() -> Any:
        raise AssertionError

    Codec(unresolved)


def test_size_is_that_of_compact_ascii_json():
    assert json_size({"a": ["ü", 1]}) == len('{"a":["\\u00fc",1]}')


def test_plain_turns_tuples_into_lists_and_subclasses_into_plain_values():
    class Text(str):
        pass

    result = plain((1, Text("x")), "v")
    assert result == [1, "x"]
    assert type(result[1]) is str  # type: ignore[index]
