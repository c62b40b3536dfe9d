"""Causes after the template: whitespace, Unicode, special tokens, other vocabularies, BOS and EOS, and prompts cut off."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, normalizers

from pytest_tokenparity import ClientCompletionTokens, LlamaCppTokens, Request, explain
from pytest_tokenparity.engines.tokenizers import TokenizersTokens

from ..llama_server import llama_server
from ..real_models import fetch
from ..tiny_gguf import write_tiny_gguf
from .witnesses import (
    OBEY,
    QUESTION,
    SYSTEM,
    TALK,
    TOOL,
    USER,
    Json,
    assert_client_explained,
    assert_explained,
    called,
    deepseek_text,
    encoded,
    gemma_text,
    llama_text,
    qwen_text,
    reference,
    tool,
    user,
)

DATED = {"date_string": "26 Jul 2024"}
FIRST = "the first token"


def of_server(url: str, asked: TokenizersTokens, request: Request, causes: list[str], where: str) -> None:
    with LlamaCppTokens(url) as server:
        answer = server.render(request)
    assert answer.ids is not None, answer
    assert_explained(asked, request, answer.ids, answer.text, causes, where, engine="llama-server")


@contextmanager
def serving_files(family: str, folder: Path) -> Iterator[str]:
    """A llama-server of a GGUF made of these files."""
    gguf = folder / "made.gguf"
    write_tiny_gguf(family, folder, gguf)
    with llama_server(gguf) as url:
        yield url


def copied(family: str, folder: Path, **settings: Any) -> Path:
    """A copy of a model's files with other settings."""
    made = folder / family
    shutil.copytree(fetch(family), made)
    file = made / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **settings}), encoding="utf-8")
    return made


def with_template(family: str, folder: Path, change: Callable[[str], str], **settings: Any) -> Path:
    """A copy of a model's files with another template."""
    template = change(reference(family).template_for(Request([])))
    made = copied(family, folder, chat_template=template, **settings)
    (made / "chat_template.jinja").unlink(missing_ok=True)
    return made


# Whitespace


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        (str.strip, "both ends of the content"),
        (str.rstrip, "the end of the content"),
        (str.lstrip, "the start of the content"),
        (lambda text: text.replace("\r\n", "\n"), "CRLF became LF"),
        (lambda text: "\n".join(line.rstrip(" ") for line in text.split("\n")), "spaces before line ends"),
    ],
)
def test_a_client_changes_whitespace_in_the_content(change: Callable[[str], str], parameter: str) -> None:
    content = "  Hi,  \n what\r\nis up? \n\n"
    text = qwen_text([SYSTEM, user(change(content))])
    causes = [f"whitespace: {parameter}"]
    assert_client_explained("qwen3", Request([SYSTEM, user(content)]), text, causes, "messages[1].content")


def test_a_client_strips_the_turns_of_one_role() -> None:
    talk: list[Json] = [user(" Hi "), {"role": "assistant", "content": " Hello. "}, user(" Bye ")]
    text = qwen_text([talk[0], {"role": "assistant", "content": "Hello."}, talk[2]])
    causes = ["whitespace: both ends of the content of assistant turns"]
    assert_client_explained("qwen3", Request(talk), text, causes, "messages[1].content")


def test_a_client_strips_the_text_of_the_system_that_gemmas_template_keeps() -> None:
    request = Request([{"role": "system", "content": "\nYou are terse.\n"}, USER])
    text = gemma_text([SYSTEM, USER])
    causes = ["whitespace: both ends of the content"]
    assert_client_explained("gemma3", request, text, causes, "messages[0].content")


def test_a_client_strips_the_prompt() -> None:
    text = qwen_text(QUESTION).rstrip()
    causes = ["whitespace: the end of the prompt"]
    assert_client_explained("qwen3", Request(QUESTION), text, causes, "the generation prompt")


def test_a_client_writes_one_newline_after_a_header_where_llama_3_1_has_two() -> None:
    text = llama_text(TALK).replace("<|end_header_id|>\n\n", "<|end_header_id|>\n")
    where = "after <|end_header_id|>"
    assert_client_explained("llama3.1", Request(TALK), text, [f"whitespace: {where}"], where)


def test_a_client_writes_no_newline_between_turns() -> None:
    text = qwen_text(TALK).replace("<|im_end|>\n", "<|im_end|>")
    where = "after <|im_end|>"
    assert_client_explained("qwen3", Request(TALK), text, [f"whitespace: {where}"], where)


@pytest.mark.parametrize("end", ["\n", " "], ids=["newline", "space"])
def test_a_client_ends_the_prompt_with_more_whitespace(end: str) -> None:
    causes = ["whitespace: the end of the prompt"]
    text = qwen_text(QUESTION) + end
    assert_client_explained("qwen3", Request(QUESTION), text, causes, "the generation prompt")


def test_a_client_writes_a_space_after_each_role() -> None:
    text = re.sub(r"(<\|im_start\|>\w+)\n", r"\1 ", qwen_text(TALK))
    where = "after <|im_start|> and a role"
    assert_client_explained("qwen3", Request(TALK), text, [f"whitespace: {where}"], where)


def test_a_client_opens_its_template_on_a_system_that_writes_crlf() -> None:
    text = qwen_text(TALK).replace("\n", "\r\n")
    assert_client_explained("qwen3", Request(TALK), text, ["whitespace: LF became CRLF"], "every line end")


def test_a_server_joins_parts_and_trims_them() -> None:
    parts = [{"type": "text", "text": " Is it sunny"}, {"type": "text", "text": "in Paris? "}]
    text = qwen_text([user("Is it sunny\nin Paris?")])
    causes = ["content-parts-joined: newline", "whitespace: both ends of the content"]
    assert_client_explained("qwen3", Request([user(parts)]), text, causes, "messages[0].content")


def test_llama_server_trims_spaces_of_ascii_alone(gemma_url: str) -> None:
    request = Request([user("\u00a0Hi\u3000")])
    causes = ["whitespace: only spaces of ASCII are trimmed"]
    of_server(gemma_url, reference("gemma3"), request, causes, "messages[0].content")


# Unicode


ACCENT = "A cafe\u0301, a caf\u00e9 and a \ufb01sh."


def test_llama_server_does_not_normalise_what_qwens_tokenizer_does(qwen_url: str) -> None:
    request = Request([SYSTEM, user("cafe\u0301")])
    of_server(qwen_url, reference("qwen3"), request, ["unicode-normalised: none"], "messages[1].content")


def test_llama_server_does_not_normalise_the_text_of_a_tool(qwen_url: str) -> None:
    request = Request(QUESTION, [tool(description="A cafe\u0301.")])
    of_server(qwen_url, reference("qwen3"), request, ["unicode-normalised: none"], "tools[0].function.description")


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(("family", "render"), [("gemma3", gemma_text), ("llama3.1", llama_text)])
def test_a_client_normalises_its_text(family: str, render: Callable[[list[Json]], str], form: Any) -> None:
    text = render([SYSTEM, user(unicodedata.normalize(form, ACCENT))])
    request = Request([SYSTEM, user(ACCENT)])
    assert_client_explained(family, request, text, [f"unicode-normalised: {form}"], "messages[1].content")


def test_a_client_decomposes_text_for_a_tokenizer_that_composes_it_and_nothing_differs() -> None:
    text = qwen_text([SYSTEM, user("cafe\u0301")])
    assert encoded("qwen3", text) == reference("qwen3").ids([SYSTEM, user("caf\u00e9")])


def test_an_engine_decomposes_letters_before_gemma_3s_own_normaliser() -> None:
    """Its own writes U+2581 for spaces: it must stay, or every word is another token."""
    asked, request = reference("gemma3"), Request([SYSTEM, user(ACCENT)])
    engine = Tokenizer.from_file(str(fetch("gemma3") / "tokenizer.json"))
    engine.normalizer = normalizers.Sequence([normalizers.NFKD(), engine.normalizer])
    text = asked.text(request)
    ids = engine.encode(text, add_special_tokens=False).ids
    assert_explained(asked, request, ids, text, ["unicode-normalised: NFKD"], "messages[1].content")


def test_a_client_composes_compatible_letters_for_qwen() -> None:
    text = qwen_text([SYSTEM, user("a \ufb01sh".replace("\ufb01", "fi"))])
    request = Request([SYSTEM, user("a \ufb01sh")])
    found = ["unicode-normalised: NFKC"]
    assert_client_explained("qwen3", request, text, found, "messages[1].content")


# Special tokens


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "llama3.1", "deepseek-v3"])
def test_llama_server_reads_special_tokens_as_text_where_it_is_told_to(
    family: str, qwen_url: str, gemma_url: str, llama_url: str, deepseek_url: str
) -> None:
    url = {"qwen3": qwen_url, "gemma3": gemma_url, "llama3.1": llama_url, "deepseek-v3": deepseek_url}[family]
    asked = reference(family)
    request = Request(TALK)
    bare = asked.text(request).removeprefix(asked.files.bos or "")
    with LlamaCppTokens(url) as server:
        ids = server.tokenize(bare, add_special=True, parse_special=False)
    assert_explained(asked, request, ids, bare, ["special-as-text"], "special tokens", engine="client-completion")


def test_a_client_posts_a_prompt_that_is_not_parsed_to_llama_server(qwen_url: str) -> None:
    def render(messages: Any, tools: Any = None, **_: Any) -> str:
        return qwen_text(messages, tools or ())

    with ClientCompletionTokens(render, qwen_url, parse_special=False) as client:
        answer = client.render(Request(QUESTION))
    assert answer.ids is not None
    assert len(answer.ids) > 25
    assert_explained(
        reference("qwen3"), Request(QUESTION), answer.ids, answer.text, ["special-as-text"], "special tokens"
    )


def shielded(text: str, typed: str) -> list[int]:
    """The IDs of a client that encodes what users typed with its special tokens as text."""
    tokenizer = Tokenizer.from_file(str(fetch("qwen3") / "tokenizer.json"))
    special = {it.content: number for number, it in tokenizer.get_added_tokens_decoder().items()}
    before, _, after = text.partition(typed)
    pattern = "(" + "|".join(map(re.escape, special)) + ")"
    *left, left_end = re.split(pattern, before)
    right_start, *right = re.split(pattern, after)
    tokenizer.encode_special_tokens = True
    ids: list[int] = []
    for piece in (*left, left_end + typed + right_start, *right):
        ids += [special[piece]] if piece in special else tokenizer.encode(piece, add_special_tokens=False).ids
    return ids


@pytest.mark.parametrize(
    ("request_", "text", "where"),
    [
        (Request([SYSTEM, user(OBEY)]), qwen_text([SYSTEM, user(OBEY)]), "messages[1].content"),
        (
            Request([*called()[:2], {"role": "tool", "tool_call_id": "call_1", "content": OBEY}], [TOOL]),
            qwen_text([*called()[:2], {"role": "tool", "content": OBEY}], [TOOL]),
            "messages[2].content",
        ),
    ],
)
def test_a_client_shields_what_users_typed(request_: Request, text: str, where: str) -> None:
    ids = shielded(text, OBEY)
    assert_explained(reference("qwen3"), request_, ids, text, ["text-shielded"], where)


def test_a_client_shields_a_description_of_a_tool() -> None:
    typed = "a<|im_end|>b"
    request = Request(QUESTION, [tool(description=typed)])
    text = qwen_text(QUESTION, request.tools or ())
    ids = shielded(text, typed)
    assert_explained(reference("qwen3"), request, ids, text, ["text-shielded"], "tools[0].function.description")


def test_a_client_shields_a_description_that_json_escapes() -> None:
    request = Request(QUESTION, [tool(description=OBEY)])
    text = qwen_text(QUESTION, request.tools or ())
    ids = shielded(text, OBEY.replace("\n", "\\n"))
    assert_explained(reference("qwen3"), request, ids, text, ["text-shielded"], "tools[0].function.description")


def test_transformers_shields_what_users_typed_if_it_is_told_to(qwen_tokenizer: Any) -> None:
    request = Request([SYSTEM, user(OBEY)])
    ids = qwen_tokenizer.apply_chat_template(
        list(request.messages), add_generation_prompt=True, return_dict=False, sanitize_control_tokens=True
    )
    text = qwen_text(request.messages)
    causes = ["text-shielded: each token by itself"]
    assert_explained(reference("qwen3"), request, ids, text, causes, "messages[1].content")


def test_llama_server_parses_what_the_reference_reads_as_text(qwen_url: str) -> None:
    request = Request([SYSTEM, user("say </s> now")])
    of_server(qwen_url, reference("qwen3"), request, ["text-as-special: </s>"], "messages[1].content")


# Another vocabulary


def without_added(folder: Path, *tokens: str) -> Path:
    """A copy of Qwen3's files in which some added tokens are other ones, so that all other IDs stay."""
    made = copied("qwen3", folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (made / name).read_text(encoding="utf-8")
        head, listed, template = text.partition('"chat_template"')
        for token in tokens:
            head = head.replace(f'"content": "{token}"', f'"content": "[unused {tokens.index(token)}]"')
        (made / name).write_text(head + listed + template, encoding="utf-8")
    return made


@pytest.mark.parametrize("tokens", [("<think>",), ("<think>", "</think>")])
def test_a_tokenizer_file_lacks_tokens(tmp_path: Path, tokens: tuple[str, ...]) -> None:
    request = Request(QUESTION, template_kwargs={"enable_thinking": False})
    stale = TokenizersTokens(without_added(tmp_path, *tokens))
    answer = stale.render(request)
    assert answer.ids is not None
    causes = [f"vocabulary-differs: {', '.join(tokens)}"]
    assert_explained(reference("qwen3"), request, answer.ids, answer.text, causes, f"the token {tokens[0]}")


def test_a_gguf_lacks_a_token(tmp_path: Path) -> None:
    folder = without_added(tmp_path, "<think>", "</think>")
    request = Request(QUESTION, template_kwargs={"enable_thinking": False})
    causes = ["vocabulary-differs: <think>, </think>"]
    with serving_files("qwen3", folder) as url:
        of_server(url, reference("qwen3"), request, causes, "the token <think>")


def test_a_gguf_lacks_a_token_of_tools(tmp_path: Path) -> None:
    folder = without_added(tmp_path, "<tool_call>", "</tool_call>")
    with serving_files("qwen3", folder) as url:
        of_server(
            url,
            reference("qwen3"),
            Request(QUESTION, [TOOL]),
            ["vocabulary-differs: <tool_call>, </tool_call>"],
            "the token <tool_call>",
        )


# BOS and EOS


@pytest.mark.parametrize("family", ["gemma3", "llama3.1", "deepseek-v3"])
def test_a_client_that_posts_a_rendered_prompt_to_llama_server_doubles_the_bos(
    family: str, gemma_url: str, llama_url: str, deepseek_url: str
) -> None:
    url = {"gemma3": gemma_url, "llama3.1": llama_url, "deepseek-v3": deepseek_url}[family]
    renders: dict[str, Callable[[list[Json]], str]] = {
        "gemma3": gemma_text,
        "llama3.1": llama_text,
        "deepseek-v3": deepseek_text,
    }
    with ClientCompletionTokens(lambda messages, *_, **__: renders[family](messages), url) as client:
        answer = client.render(Request(QUESTION))
    assert answer.ids is not None
    causes = ["bos-doubled: 1 -> 2"]
    assert_explained(reference(family), Request(QUESTION), answer.ids, answer.text, causes, FIRST)


@pytest.mark.parametrize(
    ("bos", "cause"),
    [
        ("", "bos-missing: 1 -> 0"),
        ("<bos><bos>", "bos-doubled: 1 -> 2"),
        ("<bos><bos><bos>", "bos-doubled: 1 -> 3"),
    ],
)
def test_a_client_writes_another_number_of_bos(bos: str, cause: str) -> None:
    assert_client_explained("gemma3", Request(TALK), gemma_text(TALK, bos=bos), [cause], FIRST)


def test_llama_server_adds_a_bos_to_a_template_without(tmp_path: Path) -> None:
    folder = with_template("gemma3", tmp_path, lambda it: it.replace("{{ bos_token }}", ""))
    with serving_files("gemma3", folder) as url:
        of_server(url, TokenizersTokens(folder), Request(QUESTION), ["bos-added: 0 -> 1"], FIRST)


def test_a_gguf_that_adds_no_bos_leaves_that_of_the_template(tmp_path: Path) -> None:
    folder = copied("gemma3", tmp_path, add_bos_token=False)
    with serving_files("gemma3", folder) as url, LlamaCppTokens(url) as server:
        assert server.render(Request(QUESTION)).ids == reference("gemma3").render(Request(QUESTION)).ids


def test_a_client_relies_on_a_bos_that_add_bos_token_false_does_not_add(tmp_path: Path) -> None:
    folder = copied("gemma3", tmp_path, add_bos_token=False)

    def render(messages: Any, *_: Any, **__: Any) -> str:
        return gemma_text(messages, bos="")

    with serving_files("gemma3", folder) as url, ClientCompletionTokens(render, url) as client:
        answer = client.render(Request(QUESTION))
    assert answer.ids is not None
    assert_explained(reference("gemma3"), Request(QUESTION), answer.ids, answer.text, ["bos-missing: 1 -> 0"], FIRST)


def test_llama_server_takes_one_bos_from_a_template_that_writes_two(tmp_path: Path) -> None:
    folder = with_template(
        "gemma3", tmp_path, lambda it: it.replace("{{ bos_token }}", "{{ bos_token }}{{ bos_token }}")
    )
    with serving_files("gemma3", folder) as url, LlamaCppTokens(url) as server:
        answer = server.render(Request(QUESTION))
    ours = TokenizersTokens(folder).render(Request(QUESTION)).ids
    assert ours is not None
    assert answer.ids is not None
    assert answer.ids == ours  # one taken off, one added again
    assert ours[:3] == [2, 2, 105]


def test_an_engine_writes_one_bos_where_the_template_writes_two(tmp_path: Path) -> None:
    folder = with_template(
        "gemma3", tmp_path, lambda it: it.replace("{{ bos_token }}", "{{ bos_token }}{{ bos_token }}")
    )
    ids = encoded("gemma3", gemma_text(TALK))
    assert_explained(TokenizersTokens(folder), Request(TALK), ids, gemma_text(TALK), ["bos-removed: 2 -> 1"], FIRST)


def test_llama_server_adds_a_bos_before_a_first_token_that_only_looks_like_it(tmp_path: Path) -> None:
    # U+2502 in place of U+FF5C: what a template copied through a terminal has
    looks = "<\u2502begin\u2581of\u2581sentence\u2502>"
    folder = with_template("deepseek-v3", tmp_path, lambda it: it.replace("{{bos_token}}", looks))
    with serving_files("deepseek-v3", folder) as url:
        of_server(url, TokenizersTokens(folder), Request(QUESTION), ["bos-added: 0 -> 1"], FIRST)


def test_a_client_writes_a_first_token_that_only_looks_like_a_bos() -> None:
    text = gemma_text(QUESTION, bos="<BOS>")
    found = explain(reference("gemma3"), Request(QUESTION), encoded("gemma3", text), text, engine="client-completion")
    assert (found.word, found.names, found.rest) == ("in part", ("bos-missing",), 3)


def test_llama_server_appends_an_eos_where_the_settings_say_so(tmp_path: Path) -> None:
    folder = copied("gemma3", tmp_path, add_eos_token=True)
    with serving_files("gemma3", folder) as url:
        of_server(url, reference("gemma3"), Request(QUESTION), ["eos-appended: 0 -> 1"], "the last token")


@pytest.mark.parametrize(
    ("family", "eos"), [("qwen3", "<|im_end|>"), ("gemma3", "<end_of_turn>"), ("llama3.1", "<|eot_id|>")]
)
def test_a_client_appends_an_eos(family: str, eos: str) -> None:
    text = reference(family).text(Request(TALK)) + eos
    assert_client_explained(family, Request(TALK), text, ["eos-appended: 0 -> 1"], "the last token")


def test_llama_server_doubles_the_bos_and_appends_an_eos(tmp_path: Path) -> None:
    folder = copied("gemma3", tmp_path, add_eos_token=True)
    with serving_files("gemma3", folder) as url:
        with ClientCompletionTokens(lambda messages, *_, **__: gemma_text(messages), url) as client:
            answer = client.render(Request(QUESTION))
        assert answer.ids is not None
        causes = ["bos-doubled: 1 -> 2", "eos-appended: 0 -> 1"]
        assert_explained(reference("gemma3"), Request(QUESTION), answer.ids, answer.text, causes, FIRST)


# Cut off


LONG = [SYSTEM, user("Sum this up: " + " ".join(f"line {number} of the report;" for number in range(40)))]


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
@pytest.mark.parametrize(
    ("cut", "parameter"),
    [
        (lambda ids: ids[30:], "the first 30 tokens"),
        (lambda ids: ids[:-30], "the last 30 tokens"),
        (lambda ids: ids[:1] + ids[31:], "the first 30 tokens after the first"),
        (lambda ids: ids[-32:], None),
    ],
)
def test_a_server_cuts_a_prompt_that_is_longer_than_its_context(
    family: str, cut: Callable[[list[int]], list[int]], parameter: str | None
) -> None:
    text = qwen_text(LONG) if family == "qwen3" else gemma_text(LONG)
    whole = encoded(family, text)
    causes = [f"truncated: {parameter or f'the first {len(whole) - 32} tokens'}"]
    assert_explained(reference(family), Request(LONG), cut(whole), None, causes, "the prompt", engine="ollama")
