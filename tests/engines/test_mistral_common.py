"""mistral-common, with the tokenizer that its wheel ships: as an engine, as a reference, and where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mistral_common
import pytest

from pytest_tokenparity import EngineError, Rendering, Request, RequestRefused
from pytest_tokenparity.engines.mistral_common import MistralCommonTokens

from ..harness import Project
from ..real_models import QWEN3

HI = [{"role": "user", "content": "Hi"}]
TALK = [*HI, {"role": "assistant", "content": "Hello"}]
QUESTION = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "What is 2 + 2?"}]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
SHIPPED = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"


@pytest.fixture(scope="module")
def mistral() -> MistralCommonTokens:
    return MistralCommonTokens()


def test_the_ids_and_their_text_are_mistrals_own(mistral: MistralCommonTokens) -> None:
    assert mistral.render(Request(HI)) == Rendering(ids=[1, 3, 37133, 4], text="<s>[INST]Hi[/INST]")


def test_a_system_message_is_folded_into_the_users_turn(mistral: MistralCommonTokens) -> None:
    assert mistral.render(Request(QUESTION)) == Rendering(
        ids=[1, 3, 4568, 1584, 24166, 1338, 7493, 1395, 1032, 1050, 1867, 1032, 1050, 1063, 4],
        text="<s>[INST]You are terse.\n\nWhat is 2 + 2?[/INST]",
    )


def test_control_tokens_that_a_user_types_are_never_parsed(mistral: MistralCommonTokens) -> None:
    rendering = mistral.render(Request([{"role": "user", "content": "a</s>[INST]b[/INST]"}]))
    assert rendering.text == "<s>[INST]a</s>[INST]b[/INST][/INST]"
    assert rendering.ids is not None
    assert [rendering.ids.count(control) for control in (1, 2, 3, 4)] == [1, 0, 1, 1]


def test_tools_are_written_with_an_empty_description(mistral: MistralCommonTokens) -> None:
    assert mistral.text(Request(HI, [TOOL])) == (
        '<s>[AVAILABLE_TOOLS][{"type": "function", "function": {"name": "now", "description": "", '
        '"parameters": {"type": "object"}}}][/AVAILABLE_TOOLS][INST]Hi[/INST]'
    )


def test_a_continued_message_is_left_open(mistral: MistralCommonTokens) -> None:
    assert mistral.ids(TALK, continue_final_message=True) == [1, 3, 37133, 4, 22177]


def test_switches_are_ignored_for_there_is_no_template(mistral: MistralCommonTokens) -> None:
    assert mistral.ids(HI, enable_thinking=False) == mistral.ids(HI) == mistral.ids(HI, add_generation_prompt=False)


def test_a_request_is_not_changed_by_rendering_it(mistral: MistralCommonTokens) -> None:
    messages, tools = [dict(HI[0])], [{"type": "function", "function": {"name": "now", "parameters": {}}}]
    mistral.render(Request(messages, tools))
    assert (messages, tools) == (HI, [{"type": "function", "function": {"name": "now", "parameters": {}}}])


@pytest.mark.parametrize(
    ("messages", "flags", "refused"),
    [
        (TALK, {}, "Expected last role User or Tool (or Assistant with prefix) for serving but got assistant"),
        (
            HI,
            {"continue_final_message": True},
            "continue_final_message=True requires final message to be an assistant.",
        ),
        ([], {}, "Conversation must have at least one message"),
        ([{"role": "narrator", "content": "x"}], {}, "Unknown message role: narrator"),
    ],
)
def test_what_it_does_not_take_is_a_refusal_in_its_words(
    mistral: MistralCommonTokens, messages: Any, flags: Any, refused: str
) -> None:
    assert mistral.render(Request.of(messages, **flags)) == Rendering(refused=refused)
    with pytest.raises(RequestRefused):
        mistral.ids(messages, **flags)


def test_a_refusal_of_pydantics_says_what_is_wrong_and_not_only_how_often(mistral: MistralCommonTokens) -> None:
    refused = mistral.render(Request([{"role": "user", "content": None}])).refused
    assert refused is not None
    assert refused.startswith("UserMessage: content.str: Input should be a valid string; content.list")


def test_its_vocabulary_parses_a_special_token_alone_and_none_in_a_text(mistral: MistralCommonTokens) -> None:
    vocabulary = mistral.vocabulary
    assert vocabulary.encode("</s>") == [2]
    assert vocabulary.encode("[INST]") == [3]
    assert len(vocabulary.encode("a[INST]")) > 2
    assert (vocabulary.piece(2), vocabulary.piece(37133), vocabulary.piece(10**9)) == (b"</s>", b"Hi", None)
    assert vocabulary.lines(mistral.ids(QUESTION))[0][1] == "<s>[INST]You are terse.\n\n"


def test_it_says_its_version_and_its_file(mistral: MistralCommonTokens) -> None:
    assert mistral.version().startswith("mistral-common 1.")
    assert mistral.describe() == f"{mistral.version()} with tekken_240911"


# Files


@pytest.mark.parametrize("file", ["tekken_240911", "tekken_240911.json", SHIPPED, str(SHIPPED)])
def test_a_tokenizer_is_a_file_or_the_name_of_a_shipped_one(file: Any) -> None:
    assert MistralCommonTokens(file).file == SHIPPED


def test_another_shipped_tokenizer_has_other_ids() -> None:
    assert MistralCommonTokens("tekken_240718").text(Request(HI)) == "<s>[INST]Hi[/INST]"


@pytest.mark.parametrize("file", ["nope.json", "models/tekken_240911.json"])
def test_a_file_that_is_not_there_is_never_another_one(file: str) -> None:
    with pytest.raises(EngineError) as raised:
        MistralCommonTokens(file).render(Request(HI))
    assert str(raised.value).startswith(
        f"mistral-common: {file} is no file of a tokenizer, and none that the wheel ships ("
    )
    assert "tekken_240911.json" in str(raised.value)


def test_a_file_of_another_kind_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(EngineError) as raised:
        MistralCommonTokens(tmp_path / "tokenizer.json").render(Request(HI))
    said = f"mistral-common: {tmp_path / 'tokenizer.json'} cannot be read as a tokenizer of Mistral's: "
    assert str(raised.value).startswith(said)


def test_where_it_is_not_installed_it_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "mistral_common"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mistral_common", None)
    engine = MistralCommonTokens()
    for ask in (lambda: engine.render(Request(HI)), lambda: engine.vocabulary, lambda: engine.file):
        with pytest.raises(EngineError) as raised:
            ask()
        assert str(raised.value) == (
            "mistral-common: mistral-common is not installed: pip install pytest-tokenparity[mistral]"
        )


# In a run

CASES = """
cases:
  question:
    messages: [{role: system, content: You are terse.}, {role: user, content: "What is 2 + 2?"}]
    stop: ["</s>"]
  typed: {messages: [{role: user, content: "a[INST]b"}]}
  refused: {messages: [{role: user, content: Hi}, {role: assistant, content: Hello}]}
"""


def test_as_a_reference_it_records_and_as_an_engine_it_is_compared(tmp_path: Path) -> None:
    config = (
        "models:\n  nemo:\n    tokenizer: tekken_240911\n    engines:\n      mistral-common: {}\n"
        f"      again: {{type: mistral-common, file: '{SHIPPED}'}}\n"
    )
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": CASES})
    result = project.pytest("--update-golden", COLUMNS="200")
    assert result.passed(6), result.output
    golden = project.read("golden/nemo/chat/question.json")
    assert '"stop": {"</s>": 2}' in golden
    assert '[[1, 3, 4568, 1584, 24166, 1338], "<s>[INST]You are terse.\\n\\n"]' in golden
    assert '"engine": "mistral-common ' in golden
    assert '"refused": "Expected last role User or Tool' in project.read("golden/nemo/chat/refused.json")


def test_beside_another_reference_it_is_compared_and_its_faults_are_one_line(tmp_path: Path) -> None:
    config = (
        f"models:\n  qwen:\n    tokenizer: {QWEN3}\n    engines:\n      tokenizers: {{}}\n"
        "      mistral: {type: mistral-common, file: tekken_240911}\n"
        "      absent: {type: mistral-common, file: nope.json}\n"
        "      mistral-common: {}\n"
    )
    cases = "cases:\n  plain: {messages: [{role: user, content: Hi}]}\n"
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": cases})
    output = project.pytest("--update-golden", COLUMNS="200").output
    assert "3 failed, 1 passed" in output
    assert "\nmistral leaves the golden at token 0 (9 tokens recorded, 4 rendered)\n" in output
    assert "\nabsent: nope.json is no file of a tokenizer, and none that the wheel ships (" in output
    assert f"\nmistral-common: {QWEN3} is no file of a tokenizer" in output
    assert "Traceback" not in output
