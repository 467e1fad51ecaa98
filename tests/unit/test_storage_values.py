"""Values as text and columns; packing into transactions that fit."""

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosting.storage import CorruptValue, Delete, Insert, Json, Put, Replace, Scalar, TransactionTooLarge
from hosting.storage._limits import (
    ENTITY_BYTES,
    PAYLOAD_BYTES,
    PROPERTY_UNITS,
    check_transaction,
    entity_bytes,
    utf16_units,
)
from hosting.storage._packing import Operation, pack
from hosting.storage._values import (
    chunk_columns,
    columns_of,
    decode_document,
    decode_fields,
    decode_refs,
    encode_document,
    encode_fields,
    inline_texts,
    inner_etag,
    outer_etag,
)

documents: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)
scalars: st.SearchStrategy[Scalar] = (
    st.text()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.datetimes(timezones=st.just(UTC))
)


@given(documents)
def test_any_json_round_trips(value: Json) -> None:
    text = encode_document(value, "doc")
    assert decode_document(text.encode().decode(), "doc") == value


@given(st.text(st.characters()))
def test_any_text_even_with_lone_surrogates_has_a_utf8_form_and_the_same_meaning(text: str) -> None:
    encoded = encode_document(text, "doc")
    encoded.encode()
    assert decode_document(encoded, "doc") == json.loads(json.dumps(text))


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")), scalars.filter(lambda v: not isinstance(v, str)), max_size=5)
)
def test_any_scalars_round_trip_with_their_types(fields: dict[str, Scalar]) -> None:
    found = decode_fields(encode_fields(fields, "row"), "row")
    assert found == fields
    assert [type(value) for value in found.values()] == [type(value) for value in fields.values()]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "doc is nan"),
        ({"a": [1, {"b": float("inf")}]}, r"doc\.a\[1\]\.b is inf"),
        ([object()], r"doc\[0\] is a object"),
        ({"a": b"x"}, r"doc\.a is a bytes"),
        ({"a": {(1, 2): 3}}, r"doc\.a has the key \(1, 2\)"),
        ({"a": {1}}, r"doc\.a is a set"),
    ],
)
def test_what_json_can_not_say_is_refused_with_its_path(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        encode_document(value, "doc")


def test_endless_and_very_deep_documents_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="doc"):
        encode_document(cast("Json", loop), "doc")
    deep: Json = None
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        encode_document(deep, "doc")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (2**63, r"row\.name is 64 bits"),
        (-(2**63) - 1, r"row\.name"),
        (float("nan"), r"row\.name is nan"),
        (datetime(2026, 1, 1), r"row\.name is a datetime without time zone"),
        (None, r"row\.name is a NoneType"),
        (b"x", r"row\.name is a bytes"),
        ([1], r"row\.name is a list"),
        ("x" * 32_767, "take 32778 UTF-16 units"),
    ],
)
def test_what_is_no_field_is_refused_with_its_name(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        encode_fields({"name": value}, "row")


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '"x"', "null", '{"a":{}}', '{"a":{"utc":1}}', '{"a":{"utc":"never"}}']
)
def test_broken_fields_are_corrupt(text: str) -> None:
    with pytest.raises(CorruptValue, match="row"):
        decode_fields(text, "row")


@pytest.mark.parametrize("text", ["{", "[1]", '{"a":[1]}', '{"a":1}'])
def test_broken_references_are_corrupt(text: str) -> None:
    with pytest.raises(CorruptValue, match="row"):
        decode_refs(text, "row")


def test_broken_documents_are_corrupt() -> None:
    for text in ("{", b"\xff", "[" * 100_000):
        with pytest.raises(CorruptValue, match="doc"):
            decode_document(text, "doc")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["x", "é", "漢", "\U0001f600"]), min_size=1, max_size=4), st.integers(16_000, 70_000))
def test_chunks_fit_and_join_to_the_same_text(pattern: list[str], length: int) -> None:
    text = ("".join(pattern) * length)[:length]
    columns = chunk_columns("doc", text)
    assert all(0 < utf16_units(chunk) <= PROPERTY_UNITS for chunk in columns.values())
    for chunk in columns.values():
        chunk.encode()  # no half of a pair
    assert inline_texts(columns) == {"doc": text}


def test_projection_names_every_column_that_an_inline_document_can_have() -> None:
    [operation] = pack("p", [Insert("r", {}, {"doc": "\U0001f600" * 163_000})], "t", "a").operations
    assert len(operation.properties) > 10
    assert set(operation.properties) <= set(columns_of({"doc"}))


def test_etags_say_whether_there_are_blobs() -> None:
    assert outer_etag("W/x", spilled=False) == "W/x"
    assert inner_etag(outer_etag("W/x", spilled=True)) == "W/x"
    assert outer_etag("W/x", spilled=True) != "W/x"


sizes = st.sampled_from([0, 10, 1_000, 30_000, 33_000, 100_000, 340_000])
rows = st.lists(st.tuples(st.sampled_from([Insert, Put]), st.lists(sizes, max_size=4)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=40)
@given(rows, st.sampled_from(["x", '"', "漢", "\U0001f600"]))
def test_packed_transactions_keep_every_limit_and_lose_nothing(
    shapes: list[tuple[type[Insert] | type[Put], list[int]]], letter: str
) -> None:
    operations: list[Operation] = [
        kind(f"r{n}", {"n": n}, {f"d{i}": letter * (size // utf16_units(letter)) for i, size in enumerate(lengths)})
        for n, (kind, lengths) in enumerate(shapes)
    ]
    packed = pack("p", operations, "token", "attempt")
    assert check_transaction("p", packed.operations) <= PAYLOAD_BYTES
    seen: set[str] = set()
    for operation, raw in zip(operations, packed.operations, strict=True):
        assert isinstance(operation, Insert | Put)
        assert entity_bytes("p", raw.row, raw.properties) <= ENTITY_BYTES
        refs = decode_refs(raw.properties.get("spilled"), raw.row)
        texts = {name: decode_document(text, name) for name, text in inline_texts(raw.properties).items()}
        for name, ref in refs.items():
            texts[name] = decode_document(ref.check(packed.blobs[ref.name]), name)
        assert texts == operation.documents
        seen |= {ref.name for ref in refs.values()}
    assert seen == packed.blobs.keys()


def test_small_rows_have_no_blobs_and_no_column_for_them() -> None:
    packed = pack(
        "p", [Insert("r", {"n": 1}, {"doc": [1]}), Delete("s"), Replace("t", {}, {}, "W/1+blobs")], "tok", "a"
    )
    assert packed.blobs == {}
    assert packed.operations[0].properties == {"fields": '{"n":1}', "committed_by": "tok", "d_doc_0": "[1]"}
    assert packed.operations[2].etag == "W/1"


def test_blob_names_are_of_the_row_the_document_the_content_and_the_attempt() -> None:
    value = "x" * 400_000
    [one] = pack("part-1", [Insert("turn.a~2f.1", {}, {"doc": value})], "t", "aaaa").blobs
    [same] = pack("part-1", [Insert("turn.a~2f.1", {}, {"doc": value})], "t", "bbbb").blobs
    prefix, _, attempt = one.rpartition("-")
    assert prefix.startswith("values/part-1/turn.a~2f.1/doc-")
    assert attempt == "aaaa"
    assert same == f"{prefix}-bbbb"


@pytest.mark.parametrize("row", ["é", "a b", "a.", "..", "x" * 300, "it's"])
def test_rows_that_are_no_path_segment_are_hashed_in_blob_names(row: str) -> None:
    [name] = pack("p", [Insert(row, {}, {"doc": "x" * 400_000})], "t", "a").blobs
    assert len(name) < 200
    assert name.split("/")[2].isalnum()


def test_documents_that_are_hardly_longer_than_a_reference_do_not_spill_in_vain() -> None:
    fields: dict[str, Scalar] = {"text": "x" * 32_000}
    operations: list[Operation] = [Insert(f"r{n}", fields | {"more": "y" * 700}, {"d": "z" * 900}) for n in range(100)]
    packed = pack("p", operations, "t", "a")
    assert packed.blobs == {}
    packed = pack("p", [Insert(f"r{n}", {"text": "漢" * 14_000}, {"d": "z" * 900}) for n in range(100)], "t", "a")
    assert packed.blobs == {}
    with pytest.raises(TransactionTooLarge):
        check_transaction("p", packed.operations)
