import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.responses import InvalidRequest, parse_create_request
from hosting.responses.media import check_url, decode_inline, guess_media_type


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "http://8.8.8.8/a.png",
        "https://user:pw@cdn.example.org:8443/a?b=c#d",
        "https://[2606:4700::1111]/a",
        "https://münchen.example.com/a",
        "https://127.0.0.1.example.com/",
    ],
)
def test_public_urls_pass(url: str) -> None:
    check_url(url, "x")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.com/a",
        "gopher://example.com",
        "//example.com/a",
        "example.com/a.png",
        "iVBORw0KGgo=",
        "https://",
        "https:///a",
        "http://[::1",
        "http://example.com:99999/",
        "http://exa mple.com/",
        "http://example.com\\@127.0.0.1/",
        "javascript:alert(1)",
        "",
    ],
)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_url(url, "x")
    assert caught.value.param == "x"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "db",
        "printer.local",
        "metadata.google.internal",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "017700000001",
        "0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[fd00::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[64:ff9b::a9fe:a9fe]",
        "[ff0e::1]",
        "１２７.0.0.1",
        "127。0。0。1",
        "user@10.0.0.1",
        "999.1.1.1",
    ],
)
def test_hosts_inside_a_network_are_refused(host: str) -> None:
    with pytest.raises(InvalidRequest, match="private hosts"):
        check_url(f"http://{host}/x", "x")


def test_the_app_can_allow_private_hosts_but_not_other_schemes() -> None:
    image = {"type": "input_image", "image_url": "http://10.0.0.1/a.png"}
    parse_create_request({"input": [{"role": "user", "content": [image]}]}, allow_private_urls=True)
    with pytest.raises(InvalidRequest):
        check_url("file:///etc/passwd", "x", allow_private=True)


def test_a_request_names_the_url_that_it_may_not_have() -> None:
    image = {"type": "input_image", "image_url": "http://169.254.169.254/metadata"}
    with pytest.raises(InvalidRequest) as caught:
        parse_create_request({"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}, image]}]})
    assert caught.value.param == "input[0].content[1].image_url"


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("data:image/png;base64,!!!", "invalid_base64_image"),
        ("data:image/png;base64,iVBOR", "invalid_base64_image"),
        ("data:image/png;base64,ü", "invalid_base64_image"),
        ("data:image/png,abc", "invalid_value"),
        ("data:image/png;base64", "invalid_value"),
        ("data:;;base64,AAAA", "invalid_image_format"),
        ("data:application/pdf;base64,AAAA", "invalid_image_format"),
        ("data:image/png\r\nx:y;base64,AAAA", "invalid_value"),
    ],
)
def test_an_image_must_be_what_its_data_uri_says(uri: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_inline(uri, "x", image=True)
    assert caught.value.code == code


def test_parameters_of_a_data_uri_are_dropped_and_its_type_is_lowered() -> None:
    assert decode_inline("data:Text/Plain;charset=utf-8;base64,aGk=", "x").uri == "data:text/plain;base64,aGk="


def test_a_media_type_comes_from_the_extension() -> None:
    assert guess_media_type("https://e.com/a.JPG?x=1.txt#f", "image/*") == "image/jpeg"
    assert guess_media_type("noextension", "image/*") == "image/*"


@given(st.text())
def test_any_text_is_a_url_or_an_invalid_request(text: str) -> None:
    for url in (text, f"http://{text}/", f"http://{text}@{text}:{text}"):
        with contextlib.suppress(InvalidRequest):
            check_url(url, "x")
    with contextlib.suppress(InvalidRequest):
        decode_inline(text, "x")
    with contextlib.suppress(InvalidRequest):
        decode_inline(f"data:{text}", "x", image=True)
