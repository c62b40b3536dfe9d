"""Shimmy: the stand-in renders as Shimmy 2.5.0's sources do, and a run finds what is known to be wrong with that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import EngineError, Rendering, Request
from pytest_tokenparity.engines.shimmy import COMPUTED, ShimmyTokens, family_of
from pytest_tokenparity.engines.tokenizers import TokenizerFiles, read_files

from ..harness import Project, Result
from ..real_models import QWEN3

SYSTEM = {"role": "system", "content": "You are terse."}
HI = {"role": "user", "content": "Hi"}
HELLO = {"role": "assistant", "content": "Hello"}
BYE = {"role": "user", "content": "Bye"}


@pytest.fixture(scope="module")
def files() -> TokenizerFiles:
    return read_files(QWEN3)


def text(files: TokenizerFiles, family: str, *messages: Any) -> str:
    return ShimmyTokens(files, family=family).text(Request(list(messages)))


# The three families, as `TemplateFamily::render` of src/templates.rs writes them for `/v1/chat/completions`: no `system`


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (
            "ChatML",
            (
                "<|im_start|>system\nYou are terse.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
            ),
        ),
        (
            "Llama3",
            (
                "<|start_header_id|>system<|end_header_id|>\nYou are terse.<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\nHi<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\nHello<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
            ),
        ),
        ("OpenChat", "system: You are terse.\nuser: Hi\nassistant: Hello\nuser: Bye\nassistant: "),
    ],
)
def test_each_family_is_written_as_its_source_does(files: TokenizerFiles, family: str, expected: str) -> None:
    assert text(files, family, SYSTEM, HI, HELLO, BYE) == expected


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (
            "ChatML",
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "Llama3",
            (
                "<|start_header_id|>user<|end_header_id|>\nHi<|eot_id|><|start_header_id|>user<|end_header_id|>\nHi<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n"
            ),
        ),
        ("OpenChat", "user: Hi\nuser: Hi\nassistant: "),
    ],
)
def test_a_trailing_assistant_turn_is_lost_and_the_users_stands_twice(
    files: TokenizerFiles, family: str, expected: str
) -> None:
    assert text(files, family, HI, HELLO) == expected


@pytest.mark.parametrize("family", ["ChatML", "Llama3", "OpenChat"])
def test_a_system_message_alone_is_lost_and_the_user_says_nothing(files: TokenizerFiles, family: str) -> None:
    assert text(files, family, SYSTEM) == text(files, family, {"role": "user", "content": ""})


def test_parts_are_joined_by_lines_and_other_parts_say_nothing(files: TokenizerFiles) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}]
    assert text(files, "OpenChat", {"role": "user", "content": parts}) == "user: one\n\ntwo\nassistant: "


def test_whitespace_is_kept(files: TokenizerFiles) -> None:
    assert text(files, "OpenChat", {"role": "user", "content": " Hi\n"}) == "user:  Hi\n\nassistant: "


@pytest.mark.parametrize(
    "request_",
    [
        Request([SYSTEM, HI], [{"type": "function", "function": {"name": "now"}}]),
        Request([SYSTEM, HI], template_kwargs={"enable_thinking": False}),
        Request([SYSTEM, HI], add_generation_prompt=False),
    ],
)
def test_tools_switches_and_flags_are_not_read(files: TokenizerFiles, request_: Request) -> None:
    engine = ShimmyTokens(files)
    assert engine.render(request_) == engine.render(Request([SYSTEM, HI]))


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        ([], "messages must not be empty"),
        ([{"role": "user", "content": None}], "a message without content: Shimmy answers 422"),
        ([{"role": "assistant"}, HI], "a message without content: Shimmy answers 422"),
    ],
)
def test_what_shimmy_does_not_take_is_refused(files: TokenizerFiles, messages: list[Any], refused: str) -> None:
    assert ShimmyTokens(files).render(Request(messages)) == Rendering(refused=refused)


# Tokens


def test_markers_are_letters_since_shimmy_2_and_tokens_before(files: TokenizerFiles) -> None:
    now, before = (ShimmyTokens(files, parse_special=parsed).render(Request([HI])) for parsed in (False, True))
    assert before == Rendering(
        ids=[151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198], text=now.text, unseen=(COMPUTED,)
    )
    assert now.unseen == (COMPUTED,)
    assert now.ids is not None
    assert now.ids[:6] == [27, 91, 318, 4906, 91, 29]  # < | im _start | >
    assert len(now.ids) == 23
    assert files.encode("<|im_start|>") == [151644]  # what the reference does is not changed by it


# Which family


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Meta-Llama-3.1-8B", "Llama3"),
        ("llama3-8b", "Llama3"),
        ("llama-2-7b", "ChatML"),
        ("gemma-3-1b", "ChatML"),
        ("qwen3-0.6b", "ChatML"),
        ("", "ChatML"),
    ],
)
def test_a_model_that_is_discovered_gets_its_family_by_its_name(files: TokenizerFiles, model: str, family: str) -> None:
    assert family_of(model) == family == ShimmyTokens(files, model=model).family


def test_a_family_overrides_the_name(files: TokenizerFiles) -> None:
    engine = ShimmyTokens(files, model="llama-3", family="OpenChat")
    assert engine.describe() == "shimmy: a stand-in for shimmy 2.5.0, family OpenChat; nothing is asked"


def test_another_family_is_an_error(files: TokenizerFiles) -> None:
    with pytest.raises(EngineError) as raised:
        ShimmyTokens(files, family="chatml")
    assert str(raised.value) == "shimmy: `family` must be one of ChatML, Llama3, OpenChat, found 'chatml'"


# What a run finds, with `tokenizers` as the reference

CASES = """
conversations:
  question:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
cases:
  question: {messages: question}
  prefilled:
    messages: [{role: user, content: Count., }, {role: assistant, content: "One,"}]
    continue_final_message: true
"""


def run(folder: Path, tokenizer: Path, *engines: str) -> Result:
    config = f"models:\n  m:\n    tokenizer: {tokenizer}\n    engines:\n      tokenizers: {{}}\n"
    config += "".join(f"      {engine}\n" for engine in engines)
    project = Project(folder, {"tokenparity.yaml": config, "chat.tokenparity.yaml": CASES})
    return project.pytest("--update-golden", COLUMNS="200")


@pytest.fixture(scope="module")
def on_qwen(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(
        tmp_path_factory.mktemp("qwen"),
        QWEN3,
        "shimmy: {}",
        "shimmy1: {type: shimmy, parse_special: true}",
        "named: {type: shimmy, model: llama-3.2, parse_special: true}",
        "openchat: {type: shimmy, family: OpenChat, parse_special: true}",
    )


@pytest.fixture(scope="module")
def on_llama(tmp_path_factory: pytest.TempPathFactory, llama_tokenizer_dir: Path) -> Result:
    return run(
        tmp_path_factory.mktemp("llama"),
        llama_tokenizer_dir,
        "shimmy: {type: shimmy, family: Llama3, parse_special: true}",
    )


def failure(result: Result, item: str) -> str:
    """What a run says of one item."""
    (_, _, after) = result.output.partition(f"_ {item} _")
    assert after, result.output
    return after.partition("\n____")[0].partition("\n====")[0]


def test_what_agrees_is_partly_checked_and_never_passed(on_qwen: Result) -> None:
    assert "7 failed, 2 passed, 1 partly checked" in on_qwen.output
    assert f"\npartly checked: 1 item of m: {COMPUTED}\n" in on_qwen.output
    assert "question[m-shimmy1] _" not in on_qwen.output


@pytest.mark.parametrize(
    ("engine", "found", "cause"),
    [
        # markers split into letters
        (
            "shimmy",
            "token 0 (25 tokens recorded, 46 rendered)",
            "special-as-text: with special tokens read as plain text",
        ),
        # a wrong family
        ("named", "token 0 (25 tokens recorded, 67 rendered)", "template-family: with the Llama3 family"),
        ("openchat", "token 0 (25 tokens recorded, 19 rendered)", "template-family: with the OpenChat family"),
    ],
)
def test_what_is_wrong_is_found_and_proven(on_qwen: Result, engine: str, found: str, cause: str) -> None:
    said = failure(on_qwen, f"question[m-{engine}]")
    assert f"{engine} leaves the golden at {found}" in said
    assert f"  cause   {cause}" in said
    assert "the reference renders exactly these" in said


def test_a_system_prompt_is_not_ignored_by_openchat_but_written_as_a_turn(files: TokenizerFiles) -> None:
    assert text(files, "OpenChat", SYSTEM, HI) == "system: You are terse.\nuser: Hi\nassistant: "


def test_a_trailing_assistant_turn_that_is_lost_is_found(on_qwen: Result) -> None:
    said = failure(on_qwen, "prefilled[m-shimmy1]")
    assert "shimmy1 leaves the golden at token 8 (16 tokens recorded, 17 rendered)" in said


def test_one_newline_where_metas_template_has_two_is_found(on_llama: Result) -> None:
    said = failure(on_llama, "question[m-shimmy]")
    assert "shimmy leaves the golden at token 4 (47 tokens recorded, 27 rendered)" in said
    assert "template-family: with the Llama3 family in place of the model's own chat template" in said
    assert "271 != 198" in said  # two newlines, one
