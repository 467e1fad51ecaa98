"""Background responses: two workers on one storage account, the real client, and everything that can be done to a run."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2 as httpx
import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT

FINAL = ("completed", "failed", "incomplete", "cancelled")


@pytest.fixture(scope="module")
def pair(azurite: Azurite) -> Iterator[DevHost]:
    env = {"TASKS_LEASE_SECONDS": "3", "TASKS_CONTROL_SECONDS": "0.3", "HOSTING_KEEP_ALIVE_SECONDS": "1"}
    with start_devhost(ROOT, workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


def worker(running: DevHost, number: int) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{running.base_url}/v1",
        api_key="any",
        max_retries=0,
        timeout=60,
        default_headers={"x-devhost-worker": str(number)},
    )


@pytest.fixture
def a(pair: DevHost) -> Iterator[openai.OpenAI]:
    with worker(pair, 1) as client:
        yield client


@pytest.fixture
def b(pair: DevHost) -> Iterator[openai.OpenAI]:
    with worker(pair, 2) as client:
        yield client


def until[T](look: Callable[[], T | None], seconds: float = 30) -> T:
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def ended(client: openai.OpenAI, identifier: str) -> openai.types.responses.Response:
    def look() -> openai.types.responses.Response | None:
        found = client.responses.retrieve(identifier)
        return found if found.status in FINAL else None

    return until(look)


def submit(client: openai.OpenAI, text: str, **fields: Any) -> Any:
    return client.responses.create(model="agent", input=text, background=True, **fields)


def test_a_background_response_is_queued_at_once_and_completes(a: openai.OpenAI, b: openai.OpenAI) -> None:
    ended(a, submit(a, "the first request of a process loads the agent").id)
    started = time.monotonic()
    made = submit(a, "[[slow 15 400]]")
    assert time.monotonic() - started < 5  # the run takes six seconds
    assert (made.status, made.background, made.output) == ("queued", True, [])
    assert b.responses.retrieve(made.id).status in ("queued", "in_progress", "completed")
    done = ended(b, made.id)
    assert (done.status, done.output_text) == ("completed", " ".join(f"tick{n}" for n in range(15)))
    assert done.usage is not None


def test_a_background_response_is_chainable_both_ways(a: openai.OpenAI, b: openai.OpenAI) -> None:
    first = ended(a, submit(a, "one").id)
    second = b.responses.create(model="agent", input="two", previous_response_id=first.id)
    third = ended(b, submit(b, "[[history]]", previous_response_id=second.id).id)
    assert third.output_text == "history users=3 first=one"


def test_its_input_items_are_there_from_the_start(a: openai.OpenAI) -> None:
    made = submit(a, "[[slow 20 100]]")
    assert [item.content[0].text for item in a.responses.input_items.list(made.id)] == ["[[slow 20 100]]"]  # type: ignore[union-attr]
    a.responses.cancel(made.id)


def test_create_on_one_worker_and_follow_on_the_other(a: openai.OpenAI, b: openai.OpenAI) -> None:
    stream = submit(a, "[[slow 8 150]]", stream=True)
    created = next(iter(stream))
    assert created.type == "response.created"
    followed = list(b.responses.retrieve(created.response.id, stream=True))
    own = [created, *stream]
    assert [event.to_dict() for event in followed] == [event.to_dict() for event in own]
    assert [event.sequence_number for event in own] == list(range(len(own)))
    assert [event.type for event in own][:3] == ["response.created", "response.queued", "response.in_progress"]
    assert own[-1].type == "response.completed"
    assert own[-1].response.to_dict() == b.responses.retrieve(created.response.id).to_dict()


def test_events_reach_a_follower_elsewhere_while_they_are_made(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = submit(a, "[[slow 8 500]]", stream=True)
    identifier = next(iter(made)).response.id
    made.close()
    arrived = [
        time.monotonic()
        for event in b.responses.retrieve(identifier, stream=True)
        if event.type == "response.output_text.delta"
    ]
    assert len(arrived) == 8
    assert arrived[-1] - arrived[0] > 1.0


def test_hanging_up_does_not_stop_a_background_run(a: openai.OpenAI, b: openai.OpenAI) -> None:
    stream = submit(a, "[[slow 6 150]]", stream=True)
    identifier = next(iter(stream)).response.id
    stream.close()
    assert ended(b, identifier).output_text == "tick0 tick1 tick2 tick3 tick4 tick5"


def test_a_resumed_stream_has_only_what_comes_after(a: openai.OpenAI, b: openai.OpenAI) -> None:
    whole = list(submit(a, "one two three", stream=True))
    identifier = whole[0].response.id
    for after in (0, 1, 3, len(whole) - 2):
        rest = list(b.responses.retrieve(identifier, stream=True, starting_after=after))
        assert [event.to_dict() for event in rest] == [event.to_dict() for event in whole[after + 1 :]]
    assert list(b.responses.retrieve(identifier, stream=True, starting_after=len(whole) - 1)) == []
    assert list(b.responses.retrieve(identifier, stream=True, starting_after=10_000)) == []


def test_last_event_id_works_too(a: openai.OpenAI, pair: DevHost) -> None:
    whole = list(submit(a, "one two", stream=True))
    url = f"{pair.base_url}/v1/responses/{whole[0].response.id}?stream=true"
    text = httpx.get(url, headers={"last-event-id": "4"}).text
    assert text.startswith("id: 5\n")
    assert "id: 4\n" not in text


def test_the_clients_own_resume_helper(a: openai.OpenAI, b: openai.OpenAI) -> None:
    stream = submit(a, "[[slow 5 100]]", stream=True)
    identifier = next(iter(stream)).response.id
    stream.close()
    with b.responses.stream(response_id=identifier) as resumed:
        final = resumed.get_final_response()
    assert final.output_text == "tick0 tick1 tick2 tick3 tick4"


def test_cancel_from_the_other_worker(a: openai.OpenAI, b: openai.OpenAI) -> None:
    stream = submit(a, "[[slow 300 100]]", stream=True)
    events = iter(stream)
    identifier = next(events).response.id
    until(lambda: next(events).type == "response.output_text.delta" or None)
    assert b.responses.cancel(identifier).status == "cancelled"
    assert a.responses.retrieve(identifier).status == "cancelled"
    rest = list(events)
    assert rest[-1].type == "response.failed"
    assert rest[-1].response.status == "cancelled"
    assert b.responses.cancel(identifier).status == "cancelled"
    assert list(b.responses.retrieve(identifier, stream=True))[-1].response.status == "cancelled"


def test_cancel_of_a_finished_response_returns_it(a: openai.OpenAI) -> None:
    done = ended(a, submit(a, "hi").id)
    assert a.responses.cancel(done.id).to_dict() == done.to_dict()


def test_a_running_response_cannot_be_deleted_and_a_finished_one_can(a: openai.OpenAI) -> None:
    stream = submit(a, "[[slow 100 100]]", stream=True)
    identifier = next(iter(stream)).response.id
    with pytest.raises(openai.BadRequestError, match="in-flight"):
        a.responses.delete(identifier)
    a.responses.cancel(identifier)
    a.responses.delete(identifier)
    with pytest.raises(openai.NotFoundError):
        a.responses.retrieve(identifier, stream=True)


def test_a_failure_is_followed_to_its_end(a: openai.OpenAI) -> None:
    events = list(submit(a, "[[fail no coffee]]", stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.message == "no coffee"
    assert ended(a, submit(a, "[[raise]]").id).status == "failed"


def test_a_response_without_stream_cannot_be_streamed(a: openai.OpenAI) -> None:
    made = submit(a, "hi")
    with pytest.raises(openai.BadRequestError, match="stream=true"):
        a.responses.retrieve(made.id, stream=True)


def test_a_large_background_turn(a: openai.OpenAI, b: openai.OpenAI) -> None:
    big = "0123456789" * 500_000
    assert ended(b, submit(a, big).id).output_text == f"Echo: {big}"


def test_a_newer_message_steers_the_running_turn(a: openai.OpenAI, b: openai.OpenAI) -> None:
    first = submit(a, "[[slow 300 100]]", stream=True)
    events = iter(first)
    identifier = next(events).response.id
    until(lambda: next(events).type == "response.output_text.delta" or None)
    second = submit(b, "[[history]]", previous_response_id=identifier)
    rest = list(events)
    assert rest[-1].type == "response.incomplete"
    assert rest[-1].response.incomplete_details.reason == "steered"
    done = ended(a, second.id)
    assert done.output_text == "history users=2 first=[[slow 300 100]]"


def test_turns_queue_in_order_and_nothing_gets_between_them(a: openai.OpenAI, b: openai.OpenAI) -> None:
    first = submit(a, "[[slow 300 100]]")
    until(lambda: a.responses.retrieve(first.id).status == "in_progress" or None)
    second = submit(b, "two", previous_response_id=first.id)
    try:
        other = submit(a, "[[history]]", previous_response_id=first.id)
    except openai.ConflictError as refused:
        assert refused.code == "conversation_fork_not_supported"
    else:  # the first turn had ended by then: this one is a branch of it
        assert ended(a, other.id).output_text == "history users=2 first=[[slow 300 100]]"
    third = submit(a, "[[history]]", previous_response_id=second.id)
    assert ended(b, third.id).output_text == "history users=3 first=[[slow 300 100]]"


def test_a_foreground_turn_behind_a_running_one_waits_for_its_own(a: openai.OpenAI, b: openai.OpenAI) -> None:
    first = submit(a, "[[slow 300 100]]")
    until(lambda: a.responses.retrieve(first.id).status == "in_progress" or None)
    second = b.responses.create(model="agent", input="[[history]]", previous_response_id=first.id)
    assert second.output_text == "history users=2 first=[[slow 300 100]]"
    assert second.background is False


def test_parallel_branches_of_a_finished_response_all_run(a: openai.OpenAI, b: openai.OpenAI) -> None:
    root = ended(a, submit(a, "root").id)
    children = [submit((a, b)[n % 2], "[[history]]", previous_response_id=root.id) for n in range(4)]
    assert [ended(a, child.id).output_text for child in children] == ["history users=2 first=root"] * 4


def test_a_killed_worker_is_survived_and_followers_start_over(pair: DevHost) -> None:
    with worker(pair, 1) as a, worker(pair, 2) as b:
        made = submit(a, "[[slow 40 150]]", stream=True)
        identifier = next(iter(made)).response.id
        made.close()
        text: list[str] = []
        numbers: list[int] = []
        killed = resets = 0
        after = -1
        final = None
        while final is None:
            with worker(pair, 2) as follower:
                try:
                    for event in follower.responses.retrieve(
                        identifier, stream=True, starting_after=after if after >= 0 else openai.NOT_GIVEN
                    ):
                        after = event.sequence_number
                        numbers.append(after)
                        if event.type == "response.in_progress":
                            text, resets = [], resets + 1
                        elif event.type == "response.output_text.delta":
                            text.append(event.delta)
                        elif event.type in ("response.completed", "response.failed"):
                            final = event.response
                        if len(text) == 4 and not killed:
                            killed = 1
                            for number in (1, 2):
                                pair.kill_worker_now(number)
                except (openai.APIConnectionError, httpx.TransportError):
                    continue
        assert killed
        assert resets >= 2  # the second kill may hit the recovered run
        assert numbers == list(range(len(numbers)))
        assert final.status == "completed"
        assert "".join(text) == final.output_text == " ".join(f"tick{n}" for n in range(40))
        assert b.responses.retrieve(identifier).output_text == final.output_text
        # The client's own accumulator, which does not know of starting over, accepts the whole stream too.
        with b.responses.stream(response_id=identifier) as replayed:
            assert replayed.get_final_response().output_text == final.output_text


def test_a_silent_background_stream_is_kept_alive_and_the_client_parses_it(a: openai.OpenAI, pair: DevHost) -> None:
    """openai-python takes a blank line after a comment for an event, once a stream has had ids."""
    events = list(submit(a, "[[slow 2 4500]]", stream=True))
    assert events[-1].type == "response.completed"
    url = f"{pair.base_url}/v1/responses/{submit_silent(a)}?stream=true"
    assert "\n: keep-alive\n" in httpx.get(url, timeout=60).text


def submit_silent(client: openai.OpenAI) -> str:
    stream = submit(client, "[[slow 2 4500]]", stream=True)
    identifier: str = next(iter(stream)).response.id
    stream.close()
    return identifier
