"""Route matching, without any process."""

import pytest

from devhost.errors import DevHostError
from devhost.functions import Function
from devhost.routes import Router


def router(*routes: str, prefix: str = "api") -> Router:
    """A router over `METHODS template` entries; a function is named like its entry."""
    functions = []
    for entry in routes:
        methods, _, template = entry.partition(" ")
        trigger = {"type": "httpTrigger", "name": "req", "route": template}
        if methods != "ANY":
            trigger["methods"] = methods.split(",")
        functions.append(Function(entry, entry, "http", trigger, (trigger,)))
    return Router(functions, prefix)


def found(router: Router, method: str, path: str) -> tuple[str, dict[str, str]] | None:
    match = router.match(method, path)
    return (match.function.name, match.params) if match else None


def test_text_wins_over_parameter_and_parameter_over_catch_all():
    routes = router("ANY {*rest}", "ANY items/{id}", "ANY items/special")
    assert found(routes, "GET", "/api/items/special") == ("ANY items/special", {})
    assert found(routes, "GET", "/api/items/7") == ("ANY items/{id}", {"id": "7"})
    assert found(routes, "GET", "/api/items/7/more") == ("ANY {*rest}", {"rest": "items/7/more"})


def test_constrained_parameter_wins_over_a_free_one():
    routes = router("ANY items/{name}", "ANY items/{id:int}")
    assert found(routes, "GET", "/api/items/7") == ("ANY items/{id:int}", {"id": "7"})
    assert found(routes, "GET", "/api/items/seven") == ("ANY items/{name}", {"name": "seven"})


def test_wrong_verb_falls_through_to_the_next_route_that_matches():
    routes = router("GET items/{id}", "ANY {*rest}")
    assert found(routes, "DELETE", "/api/items/7") == ("ANY {*rest}", {"rest": "items/7"})


def test_wrong_verb_without_another_route_matches_nothing():
    assert found(router("GET items/{id}"), "DELETE", "/api/items/7") is None
    assert found(router("GET items/{id}"), "HEAD", "/api/items/7") is None


def test_path_outside_the_prefix_matches_nothing():
    assert found(router("ANY {*rest}"), "GET", "/items") is None
    assert found(router("ANY items"), "GET", "/api/items/more") is None


def test_empty_prefix():
    assert found(router("ANY v1/responses", prefix=""), "POST", "/v1/responses") == ("ANY v1/responses", {})


def test_matching_ignores_case_and_a_trailing_slash():
    assert found(router("ANY Items/{id}"), "GET", "/API/items/Abc/") == ("ANY Items/{id}", {"id": "Abc"})


def test_values_are_decoded_but_for_slashes():
    assert found(router("ANY items/{id}"), "GET", "/api/items/a%20b%2Fc%C3%A9") == (
        "ANY items/{id}",
        {"id": "a b%2Fcé"},
    )


def test_optional_parameter_and_default():
    routes = router("ANY items/{id?}", "ANY pages/{n=1}")
    assert found(routes, "GET", "/api/items") == ("ANY items/{id?}", {})
    assert found(routes, "GET", "/api/items/3") == ("ANY items/{id?}", {"id": "3"})
    assert found(routes, "GET", "/api/pages") == ("ANY pages/{n=1}", {"n": "1"})


def test_catch_all_may_be_empty():
    assert found(router("ANY files/{*path}"), "GET", "/api/files") == ("ANY files/{*path}", {})


def test_several_parameters_in_one_segment():
    assert found(router("ANY {name}.{extension}"), "GET", "/api/photo.png") == (
        "ANY {name}.{extension}",
        {"name": "photo", "extension": "png"},
    )


def test_function_without_a_route_answers_at_its_name():
    trigger = {"type": "httpTrigger", "name": "req"}
    assert found(Router([Function("Hello", "1", "http", trigger, (trigger,))], "api"), "GET", "/api/hello") == (
        "Hello",
        {},
    )


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        ("int", "-5", "5.5"),
        ("int", "2147483647", "2147483648"),
        ("long", "2147483648", "x"),
        ("bool", "True", "yes"),
        ("double", "1.5", "x"),
        ("guid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("datetime", "2026-01-31", "tomorrow"),
        ("alpha", "abc", "ab1"),
        ("length(3)", "abc", "ab"),
        ("length(2,3)", "ab", "abcd"),
        ("minlength(2)", "ab", "a"),
        ("maxlength(2)", "ab", "abc"),
        ("min(10)", "10", "9"),
        ("max(10)", "10", "11"),
        ("range(1,3)", "2", "4"),
        ("regex(^a.c$)", "abc", "abd"),
        ("int:min(1)", "1", "0"),
    ],
)
def test_constraint(constraint: str, good: str, bad: str):
    routes = router(f"ANY {{value:{constraint}}}")
    assert found(routes, "GET", f"/api/{good}") is not None
    assert found(routes, "GET", f"/api/{bad}") is None


@pytest.mark.parametrize("template", ["items/{id:colour}", "items/{:int}", "items/{id:int!}"])
def test_unreadable_template_is_refused(template: str):
    with pytest.raises(DevHostError, match="route"):
        router(f"ANY {template}")
