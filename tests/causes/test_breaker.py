"""What somebody found who tried to make causes lie: each stays as a test with the right value."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tokenizers import Tokenizer

from pytest_tokenparity import Request, TokenizersTokens, explain
from pytest_tokenparity.causes.explanation import DeclaredCause, holds

from ..real_models import fetch

SYSTEM = {"role": "system", "content": "You are terse."}
USER = {"role": "user", "content": "What is 2 + 2?"}
ANSWER = {"role": "assistant", "content": "4."}


def reference(family: str = "qwen3") -> TokenizersTokens:
    return TokenizersTokens(fetch(family), clock=datetime(2026, 1, 2))


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "Look.", "parameters": {"type": "object"}, **more},
    }


def held(asked: Request, done: Request, *declared: DeclaredCause) -> frozenset[str] | None:
    engine = reference()
    answer = engine.render(done)
    return holds(engine, asked, answer.ids, answer.text, declared)


TOOLS = [tool("get_weather"), tool("query_time"), tool("zeta")]


def test_one_of_two_dropped_tools_does_not_hold_for_both() -> None:
    asked, done = Request([SYSTEM, USER], TOOLS), Request([SYSTEM, USER], TOOLS[2:])
    assert held(asked, done, DeclaredCause("tools-dropped", ("get_weather",))) is None
    both = frozenset(("tools-dropped: get_weather", "tools-dropped: query_time"))
    assert held(asked, done, DeclaredCause("tools-dropped", ("get_weather", "query_time"))) == both
    assert held(asked, done, DeclaredCause("tools-dropped", ("query_time", "get_weather"))) == both


def test_a_part_of_a_text_that_was_added_does_not_hold_for_the_whole() -> None:
    added = {"role": "system", "content": "You are a bot, and you obey nobody."}
    asked, done = Request([USER]), Request([added, USER])
    assert held(asked, done, DeclaredCause("system-added", ("You are a bot",))) is None
    assert held(asked, done, DeclaredCause("system-added", (added["content"],))) is not None


@pytest.mark.parametrize("place", ["", ", in place"])
def test_where_an_added_field_stands_may_be_left_out(place: str) -> None:
    bare = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    whole = {"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}
    declared = DeclaredCause("tool-field-added", (f'description=""{place}',))
    assert held(Request([USER], [bare]), Request([USER], [whole]), declared) is not None


@pytest.mark.parametrize("family", ["qwen3", "llama3.1", "gemma3", "deepseek-v3"])
@pytest.mark.parametrize(
    ("asked", "done"),
    [([SYSTEM, USER], [USER]), ([SYSTEM, USER, ANSWER], [SYSTEM, USER]), ([SYSTEM, SYSTEM, USER], [SYSTEM, USER])],
)
def test_a_lost_message_is_never_proven_to_be_a_cut(family: str, asked: list[Any], done: list[Any]) -> None:
    engine = reference(family)
    answer = engine.render(Request(done))
    found = explain(engine, Request(asked), answer.ids, answer.text, engine="llama-server")
    assert not (found.word == "proven" and "truncated" in found.names), found


def test_a_template_that_cannot_be_rendered_here_proves_nothing_and_names_no_family() -> None:
    engine = reference()
    answer = engine.render(Request([SYSTEM, {"role": "user", "content": "What is 2 + 3?"}]))
    for template in ("{{ 1/0 }}", "{{ messages | nofilter }}", "{% if %}"):
        found = explain(engine, Request([SYSTEM, USER]), answer.ids, answer.text, template=template)
        assert (found.word, found.names) == ("unknown", ())
        assert found.where == "messages[1].content"


def test_a_token_that_the_vocabulary_lacks_is_found_behind_a_bos() -> None:
    engine = reference("llama3.1")
    request = Request([SYSTEM, USER])
    text = engine.text(request)
    state = (fetch("llama3.1") / "tokenizer.json").read_text(encoding="utf-8")
    lacking = Tokenizer.from_str(state.replace('"content": "<|eot_id|>"', '"content": "[gone]"'))
    ids = list(lacking.encode(text, add_special_tokens=False).ids)
    assert ids != engine.files.encode(text)
    found = explain(engine, request, ids, text)
    assert (found.word, [str(cause) for cause in found.causes]) == ("proven", ["vocabulary-differs: <|eot_id|>"])


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_beyond_every_double_is_no_crash(number: int) -> None:
    engine = reference()
    asked = Request([USER], [tool("f", parameters={"type": "object", "maximum": number}, **{"return": 1})])
    answer = engine.render(Request([USER], [tool("f", parameters={"type": "object", "maximum": number})]))
    assert explain(engine, asked, answer.ids, answer.text).names == ("tool-field-dropped",)


# Names inside names, long conversations, parts of texts


@pytest.mark.parametrize("family", ["qwen3", "llama3.1"])
def test_a_dropped_tool_is_told_from_one_whose_name_is_a_part_of_its_own(family: str) -> None:
    tools = [tool("read"), tool("read_file"), tool("write")]
    asked = reference(family)
    for kept, gone in ((tools[::2], "read_file"), (tools[:1], "read_file, write"), (tools[1:], "read")):
        answer = asked.render(Request([SYSTEM, USER], kept))
        found = explain(asked, Request([SYSTEM, USER], tools), answer.ids, answer.text)
        assert str(found).startswith(f"proven tools-dropped: {gone} at ")


def test_kept_tools_are_not_named_where_a_rest_is_unexplained() -> None:
    tools = [tool(f"t{number}") for number in range(24)]
    asked = reference()
    answer = asked.render(Request([SYSTEM, {"role": "user", "content": "What is 2 + 3?"}], tools[::2]))
    found = explain(asked, Request([SYSTEM, USER], tools), answer.ids, answer.text)
    assert (found.word, [str(cause) for cause in found.causes]) == (
        "in part",
        [f"tools-dropped: {', '.join(f't{number}' for number in range(1, 24, 2))}"],
    )


def talk(turns: int) -> list[dict[str, Any]]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": f"This is turn {number}"} for number in range(turns)
    ]


@pytest.mark.parametrize("every", [2, 10])
def test_many_lost_turns_of_a_long_conversation_are_found_by_few_renderings(every: int) -> None:
    """Each alone beside each would be thousands; and `turn 1` stands in `turn 12`."""
    messages = [SYSTEM, *talk(200), USER]
    lost = set(range(2 + every, len(messages) - 1, every))
    asked = reference()
    answer = asked.render(Request([it for index, it in enumerate(messages) if index not in lost]))
    found = explain(asked, Request(messages), answer.ids, answer.text)
    assert (found.word, found.names) == ("proven", ("message-dropped",))
    assert found.causes[0].where == tuple(f"messages[{index}]" for index in sorted(lost))
    assert found.renders <= 60


def test_a_search_that_ended_early_says_so() -> None:
    messages = [SYSTEM, *talk(200), USER]
    asked = reference()
    text = asked.text(Request(messages)).upper()
    found = explain(asked, Request(messages), asked.files.encode(text), text)
    assert (found.word, found.names) == ("unknown", ())
    assert found.renders <= 460


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("m.content[:20]", "the template drops a part of messages[0].content (role 'user'), nothing of it reaches"),
        ("''", "the template drops messages[0].content (role 'user'), nothing of it reaches"),
    ],
)
def test_a_text_that_is_shortened_is_not_called_lost_as_a_whole(printed: str, says: str) -> None:
    from pytest_tokenparity.causes.alone import remarks

    asked = TokenizersTokens(fetch("qwen3"), template=f"{{% for m in messages %}}<{{{{ {printed} }}}}>{{% endfor %}}")
    request = Request([{"role": "user", "content": "Tell me all that you know of the sea and of its fish."}])
    (found,) = remarks(asked, request, asked.render(request).ids)
    assert found.message.startswith(says)


def test_an_answer_without_a_token_explains_nothing() -> None:
    found = explain(reference(), Request([{"role": "user", "content": ""}]), [], "")
    assert str(found) == "unknown, not looked for: the answer holds no token"


def test_a_text_that_is_none_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="text must be a string or None, not int"):
        explain(reference(), Request([USER]), [1], 5)  # type: ignore[arg-type]


def test_what_the_tools_lack_is_where_the_prompts_part_first() -> None:
    messages = [USER, {"role": "assistant", "content": "4.", "reasoning_content": "2 + 2"}, USER]
    bare = [USER, {"role": "assistant", "content": "4."}, USER]
    template = (
        "{% for t in tools or [] %}{{ t|tojson }}\n{% endfor %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}|{{ m.content }}\n{% endfor %}"
    )
    asked = TokenizersTokens(fetch("qwen3"), template=template)
    answer = asked.render(Request(bare))
    found = explain(asked, Request(messages, TOOLS), answer.ids, answer.text)
    assert (found.names, found.where) == (("reasoning-dropped", "tools-dropped"), "tools[0]")
