"""Which test pins each row of the list of bugs and gaps of the published helpers (af_gaps).

Rows A to E are tests of their own, in test_af_gaps_*.py, named after their row (`test_a1_...`). What the pure half can't
show, rows about state, servers and workflows, is pinned where it is built; this table says where.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

ROWS = [
    *(f"A{number}" for number in range(1, 12)),
    *(f"B{number}" for number in range(1, 13)),
    *(f"C{number}" for number in range(1, 4)),
    *(f"D{number}" for number in range(1, 18)),
    *(f"E{number}" for number in range(1, 13)),
    *(f"F{number}" for number in range(1, 9)),
    *(f"G{number}" for number in range(1, 7)),
]

ELSEWHERE = {
    "A7": ["e2e/test_conversation.py::test_an_item_reference_stands_for_the_item"],
    "B1": ["e2e/test_errors.py::test_a_body_key_never_reaches_the_tools"],
    "D2": [
        "unit/test_workflow_agents.py::test_a_workflow_agent_that_pauses_is_rendered",
        "unit/test_workflow_agents.py::test_a_raw_object_with_a_status_is_no_transport",
    ],
    "D15": ["e2e/test_conversation.py::test_retrieve_gives_what_create_gave"],
    "E2": ["unit/test_server.py::test_an_exception_in_mid_stream_ends_it_with_failed_and_no_detail"],
    "E3": ["unit/test_server.py::test_closing_the_stream_closes_the_agents_stream_and_stores_the_turn_as_cancelled"],
    "E4": ["unit/test_workflow_agents.py::test_a_stream_of_a_workflow_is_rendered_by_the_helper"],
    "E11": ["unit/test_responses_sse.py::test_an_id_line_carries_the_sequence_number_when_asked_for"],
    "F1": [
        "e2e/test_errors.py::test_an_unknown_predecessor_is_a_400_that_says_so",
        "unit/test_state_agent.py::test_get_session_gives_none_for_an_unknown_id_and_creates_nothing",
    ],
    "F2": [
        "e2e/test_errors.py::test_an_id_that_could_never_be_one_is_a_400",
        "contract/test_session_store.py::test_ids_of_another_scope_are_not_found",
        "contract/test_turns.py::test_an_id_of_another_scope_is_not_found",
    ],
    "F3": ["unit/test_state_agent.py::test_nothing_is_stored_before_the_run"],
    "F4": [
        "unit/test_state_session_codec.py::test_dicts_that_look_like_objects_stay_what_they_are",
        "contract/test_session_store.py::test_a_dict_that_looks_like_a_message_is_no_trap",
    ],
    "F5": [
        "unit/test_state_targets.py::test_a_cancelled_first_caller_takes_nothing_from_the_next",
        "unit/test_state_targets.py::test_an_awaitable_that_failed_raises_its_error_again",
        "unit/test_state_targets.py::test_an_instance_is_the_target_at_once",
    ],
    "F7": [
        "contract/test_checkpoint_storage.py::test_a_save_that_storage_refuses_is_raised",
        "contract/test_checkpoint_storage.py::test_the_latest_costs_the_same_whatever_is_behind_it",
        "contract/test_checkpoint_storage.py::test_any_text_is_an_id",
    ],
    "F8": [
        "unit/test_state_agent.py::test_accepts_options_tells_agents_that_take_options",
        "unit/test_server.py::test_an_agent_without_options_is_served_and_its_session_goes_along",
    ],
    "G1": ["contract/test_checkpoint_cursors.py::test_an_app_pauses_a_workflow_and_goes_on_with_another_instance"],
    "G2": [
        "contract/test_checkpoint_storage.py::test_the_latest_is_the_one_that_was_saved_last_when_a_clock_was_wrong"
    ],
    "G6": [
        "unit/test_state_agent.py::test_each_caller_gets_a_copy_of_its_own",
        "contract/test_session_store.py::test_a_conversation_goes_on_over_the_store_and_branches",
    ],
}
"""Rows by test file and name, under tests/."""


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_pinned(row: str) -> None:
    here = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_af_gaps_*.py"))
    named = re.search(rf"def test_{row.lower()}_\w", here)
    assert named or row in ELSEWHERE


@pytest.mark.parametrize("row", ELSEWHERE)
def test_a_test_that_is_named_is_there(row: str) -> None:
    for named in ELSEWHERE[row]:
        path, _, name = named.partition("::")
        assert re.search(rf"def {name}\b", (TESTS / path).read_text()), named
