"""The engine without Transformers: its answers are those of `TransformersTokens`, and each way to have none has its message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import EngineError, Request, TransformersTokens
from pytest_tokenparity.cases import load_case_file
from pytest_tokenparity.config import load_config
from pytest_tokenparity.engines.tokenizers import TokenizerFiles, TokenizersTokens, read_files
from pytest_tokenparity.engines.transformers import conventions

from ..causes.shapes import shapes
from ..harness import PLAIN, QUESTION, Project
from ..real_models import QWEN3, ROOT, fetch

CLOCK = datetime(2026, 1, 2, 3, 4, 5)
FUNCTION = {"name": "now", "description": "The time.", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
HI = Request([{"role": "user", "content": "Hi"}])
WITH_TOOL = Request(HI.messages, [TOOL])
NO_TOOLS_IN_A_LIST = Request(HI.messages, [])
EVERY_CONTENT = "{% for m in messages %}{{ m.content }}{% endfor %}"


def requests_of_the_parity_suite() -> dict[str, Request]:
    config = load_config(ROOT / "tokenparity.yaml")
    return {
        f"{file.name}::{case.name}[{number}]": request
        for file in sorted((ROOT / "tests" / "parity").glob("*.tokenparity.yaml"))
        for case in load_case_file(file, config).cases
        for number, request in enumerate(case.requests)
    }


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "llama3.1", "deepseek-v3"])
def test_ids_text_and_refusals_are_those_of_transformers(family: str) -> None:
    folder = fetch(family)
    reference = TransformersTokens(folder, clock=CLOCK)
    loaded = TokenizerFiles.of_transformers(reference.tokenizer)
    assert loaded is not None
    of_files, of_loaded = (
        TokenizersTokens(source, clock=CLOCK, conventions=conventions()) for source in (folder, loaded)
    )
    # 5.20 makes a LlamaTokenizer of DeepSeek's vocabulary and does not use the rest of its tokenizer.json
    own_encoding = type(reference.tokenizer).__name__ == "LlamaTokenizer"
    asked = {**requests_of_the_parity_suite(), **shapes()}
    rendered = 0
    for name, request in asked.items():
        expected, got = reference.render(request), of_files.render(request)
        assert (name, expected.ids) == (name, of_loaded.render(request).ids)
        assert (name, expected.refused is None) == (name, got.refused is None)
        if expected.refused is None:
            rendered += 1
            assert (name, reference.text(request)) == (name, got.text)
            assert own_encoding or (name, expected.ids) == (name, got.ids)
    assert len(asked) > 300
    assert rendered > len(asked) / 2


# Folders: which template, which tokens


@cache
def _small() -> tuple[str, str]:
    """Qwen3's tokenizer.json and tokenizer_config.json with its letters and added tokens alone: loaded in no time."""
    form = json.loads((QWEN3 / "tokenizer.json").read_text(encoding="utf-8"))
    form["model"]["vocab"] = {token: number for token, number in form["model"]["vocab"].items() if number < 256}
    form["model"]["merges"] = []
    for number, token in enumerate(form["added_tokens"], 256):
        token["id"] = number
    settings = json.loads((QWEN3 / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = settings["added_tokens_decoder"].values()
    settings["added_tokens_decoder"] = {str(number): token for number, token in enumerate(tokens, 256)}
    return json.dumps(form), json.dumps(settings)


def small_folder(folder: Path, files: Mapping[str, str] | None = None, **settings: Any) -> Path:
    """A folder with the small tokenizer, other settings (``...`` takes one out) and more files."""
    form, own = _small()
    merged = {key: value for key, value in {**json.loads(own), **settings}.items() if value is not ...}
    written = {"tokenizer.json": form, "tokenizer_config.json": json.dumps(merged), **(files or {})}
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def added_token(content: str, **flags: bool) -> dict[str, Any]:
    off = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word", "special"), False)
    return {"content": content, **off, **flags}


def special_token(content: str) -> dict[str, Any]:
    return {"__type": "AddedToken", **added_token(content)}


def listed(**templates: str) -> list[dict[str, str]]:
    return [{"name": name, "template": template} for name, template in templates.items()]


def answer(engine: TransformersTokens | TokenizersTokens, request: Request) -> tuple[str, list[int]] | str:
    try:
        ids = engine.render(request).ids
    except EngineError:
        return "error"
    return "refused" if ids is None else (engine.text(request), ids)


def assert_same(folder: Path, *requests: Request, template: str | None = None) -> list[tuple[str, list[int]] | str]:
    """That both answer the same to each request from this folder; gives what."""
    reference = TransformersTokens(folder, template=template, clock=CLOCK)
    ours = TokenizersTokens(folder, template=template, clock=CLOCK, conventions=conventions())
    expected = [answer(reference, request) for request in requests]
    assert expected == [answer(ours, request) for request in requests]
    return expected


def only_ids(answers: list[tuple[str, list[int]] | str]) -> list[int]:
    (seen,) = answers
    assert not isinstance(seen, str)
    return seen[1]


def texts(answers: list[tuple[str, list[int]] | str]) -> list[str]:
    return [seen if isinstance(seen, str) else seen[0] for seen in answers]


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("own", {}, ["own", "own", "own"]),
        (listed(default="d", tool_use="t"), {}, ["d", "t", "t"]),
        (listed(default="d", rag="r"), {}, ["d", "d", "d"]),
        (listed(default="d"), {}, ["d", "d", "d"]),
        (listed(rag="r", other="o"), {}, ["error", "error", "error"]),
        (listed(tool_use="t"), {}, ["error", "t", "t"]),
        ({"default": "d", "tool_use": "t"}, {}, ["d", "t", "t"]),
        ([], {}, ["error", "error", "error"]),
        (None, {}, ["error", "error", "error"]),
        ("", {}, ["", "", ""]),
        ("own", {"chat_template.jinja": "file\n\n"}, ["file\n", "file\n", "file\n"]),
        (..., {"chat_template.jinja": "file\r\nof two lines"}, ["file\nof two lines"] * 3),
        (listed(default="d", tool_use="t"), {"chat_template.jinja": "file"}, ["file", "file", "file"]),
        ("own", {"additional_chat_templates/tool_use.jinja": "more"}, ["error", "more", "more"]),
        (
            "own",
            {"chat_template.jinja": "file", "additional_chat_templates/tool_use.jinja": "more"},
            ["file", "more", "more"],
        ),
        (
            "own",
            {"chat_template.jinja": "file", "additional_chat_templates/rag.jinja": "more"},
            ["file", "file", "file"],
        ),
    ],
)
def test_the_template_is_the_one_that_transformers_chooses(
    tmp_path: Path, own: Any, files: dict[str, str], expected: list[str]
) -> None:
    folder = small_folder(tmp_path, files, chat_template=own)
    assert expected == texts(assert_same(folder, HI, WITH_TOOL, NO_TOOLS_IN_A_LIST))


def test_a_template_overrides_what_the_folder_has_and_may_name_one_of_several(tmp_path: Path) -> None:
    folder = small_folder(tmp_path, chat_template=listed(default="d", rag="r", tool_use="t"))
    assert texts(assert_same(folder, HI, WITH_TOOL, template="rag")) == ["r", "r"]
    assert texts(assert_same(folder, HI, WITH_TOOL, template="{{ messages[0].role }}")) == ["user", "user"]


def test_templates_without_a_default_are_named(tmp_path: Path) -> None:
    folder = small_folder(tmp_path, chat_template=listed(rag="r", other="o"))
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(folder).render(HI)
    assert str(raised.value) == (
        "tokenizers: the tokenizer has the chat templates other, rag and no default; choose one with `template:`"
    )


SPECIAL = "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ cls_token is defined }}"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bos_token": "<|im_start|>", "pad_token": None},
        {"bos_token": special_token("<|im_start|>"), "eos_token": special_token("<|im_end|>")},
        # Qwen2Tokenizer has special tokens of its own for what is absent; a class for any model has none
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": ..., "pad_token": ..., "cls_token": "<|im_end|>"},
    ],
    ids=["Qwen3's", "strings", "objects", "absent ones"],
)
def test_special_tokens_are_variables_in_either_form(tmp_path: Path, settings: dict[str, Any]) -> None:
    request = Request(HI.messages, template_kwargs={"eos_token": "<mine>"})
    (_, text) = texts(assert_same(small_folder(tmp_path, chat_template=SPECIAL, **settings), HI, request))
    assert "<mine>" in text


TEXT = Request([{"role": "user", "content": "a <|im_end|> b  <|new|> c<|new|>d <|last|> e"}])


def decoder(*more: dict[str, Any], change: Mapping[str, Any] | None = None) -> dict[str, Any]:
    tokens = json.loads(_small()[1])["added_tokens_decoder"]
    tokens.update({str(max(map(int, tokens)) + number): token for number, token in enumerate(more, 1)})
    return dict(tokens)


@pytest.mark.parametrize(
    "settings",
    [
        {"added_tokens_decoder": decoder(added_token("<|new|>"))},
        {"added_tokens_decoder": decoder(added_token("<|new|>"), added_token("<|last|>", special=True))},
        {"added_tokens_decoder": decoder(added_token("<|new|>", lstrip=True, rstrip=True))},
        {"added_tokens_decoder": decoder(added_token("<|new|>", single_word=True))},
        {"added_tokens_decoder": decoder(added_token("<|new|>", normalized=True))},
        {"eos_token": "<|new|>"},
        {"additional_special_tokens": ["<|new|>", "<|last|>"]},
        {"eos_token": "<|last|>", "added_tokens_decoder": decoder(added_token("<|new|>"))},
        {"extra_special_tokens": {"image_token": "<|new|>"}},
    ],
    ids=["one", "two", "stripping", "single word", "normalized", "eos", "additional", "listed before eos", "extra"],
)
def test_tokens_that_only_the_settings_know_are_added(tmp_path: Path, settings: dict[str, Any]) -> None:
    ids = only_ids(assert_same(small_folder(tmp_path, chat_template=EVERY_CONTENT, **settings), TEXT))
    assert 282 in ids
    assert_same(small_folder(tmp_path / "empty", chat_template="", **settings), TEXT)


@pytest.mark.parametrize("split", [True, False])
def test_special_tokens_are_split_where_the_settings_say_so(tmp_path: Path, split: bool) -> None:
    folder = small_folder(tmp_path, chat_template=EVERY_CONTENT, split_special_tokens=split)
    ids = only_ids(assert_same(folder, TEXT))
    assert (258 in ids) is not split


def test_truncation_and_padding_of_the_file_are_off(tmp_path: Path) -> None:
    form = json.loads(_small()[0])
    form["truncation"] = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    form["padding"] = {
        "strategy": {"Fixed": 90},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 256,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    folder = small_folder(tmp_path, {"tokenizer.json": json.dumps(form)}, chat_template=EVERY_CONTENT)
    ids = only_ids(assert_same(folder, TEXT))
    assert 5 < len(ids) < 90


def test_files_are_read_again_when_one_of_them_changes(tmp_path: Path) -> None:
    folder = small_folder(
        tmp_path, {"additional_chat_templates/tool_use.jinja": "before"}, chat_template=..., unk_token=...
    )
    (folder / "chat_template.jinja").write_text("d", encoding="utf-8")
    assert TokenizersTokens(folder).text(WITH_TOOL) == "before"
    assert read_files(folder) is read_files(str(folder))
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("and after", encoding="utf-8")
    assert TokenizersTokens(folder).text(WITH_TOOL) == "and after"


# No answer at all: one line that says what to do


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(tmp_path / "missing")
    assert f"the tokenizer folder {tmp_path / 'missing'} is not there" == str(raised.value)


def test_an_empty_folder_is_named_with_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(tmp_path)
    assert f"the folder {tmp_path} holds no readable tokenizer.json: No such file or directory" == str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"version": "1.0", ', "cannot be read as a tokenizer: "),
        (b"[]", "cannot be read as a tokenizer: "),
        (b"", "cannot be read as a tokenizer: "),
        (b'{"\xff": 1}', "is not UTF-8"),
    ],
)
def test_a_broken_tokenizer_json_is_named_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (small_folder(tmp_path) / "tokenizer.json").write_bytes(content)
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'tokenizer.json'} {message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"eos_token": ', "cannot be read: Expecting value: line 1 column 15 (char 14)"),
        (b'{"\xff": 1}', "cannot be read: 'utf-8' codec can't decode byte 0xff"),
        (b"[]", "must hold a JSON object"),
        (b"null", "must hold a JSON object"),
        (b'{"added_tokens_decoder": {"x": {"content": "a"}}}', "is not what a tokenizer is configured with: "),
        (b'{"added_tokens_decoder": {"300": {}}}', "is not what a tokenizer is configured with: KeyError('content')"),
        (b'{"added_tokens_decoder": [1]}', "is not what a tokenizer is configured with: "),
        (b'{"eos_token": 5}', "is not what a tokenizer is configured with: TypeError('5 is no token')"),
        (b'{"eos_token": {}}', "is not what a tokenizer is configured with: KeyError('content')"),
        (b'{"chat_template": ["a"]}', "is not what a tokenizer is configured with: "),
        (b'{"chat_template": [{"template": "a"}]}', "is not what a tokenizer is configured with: KeyError('name')"),
        (b'{"chat_template": 5}', "is not what a tokenizer is configured with: "),
    ],
)
def test_a_broken_tokenizer_config_is_named_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (small_folder(tmp_path) / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'tokenizer_config.json'} {message}")
    assert "\n" not in str(raised.value)


def test_a_template_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (small_folder(tmp_path) / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(tmp_path)
    assert str(raised.value).startswith(f"a chat template of {tmp_path} cannot be read: 'utf-8' codec can't decode")


def test_a_folder_without_settings_needs_a_template_and_no_more(tmp_path: Path) -> None:
    (small_folder(tmp_path) / "tokenizer_config.json").unlink()
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(tmp_path).render(HI)
    assert str(raised.value) == "tokenizers: the tokenizer has no chat template; give one with `template:`"
    assert TokenizersTokens(tmp_path, template=EVERY_CONTENT).ids(HI.messages) == [39, 72]


# Through pytest, as a user


def config(*engines: str, tokenizer: str | Path = QWEN3, more: str = "") -> str:
    names = "".join(f"      {engine}\n" for engine in engines or ("tokenizers: {}",))
    return f"models:\n  qwen3-0.6b:\n    tokenizer: {tokenizer}\n{more}    engines:\n{names}"


TOOL_CASES = f"""{QUESTION}
tools:
  now: {json.dumps({"type": "function", "function": {**FUNCTION, "return": {"type": "string"}}})}
cases:
  plain: {{messages: question}}
  tools: {{messages: question, tools: [now]}}
  parts:
    messages: [{{role: user, content: [{{type: text, text: Hi}}]}}]
"""
SAYS_WHAT_IS_IMPORTED = """
import json, sys


def pytest_unconfigure():
    with open("imported.json", "w") as file:
        json.dump(sorted({name.partition(".")[0] for name in sys.modules}), file)
"""


def test_it_records_as_the_reference_and_the_golden_says_by_what(tmp_path: Path) -> None:
    project = Project(tmp_path, {"tokenparity.yaml": config(), "chat.tokenparity.yaml": TOOL_CASES})
    assert project.pytest("--update-golden").passed(3)
    golden = json.loads(project.read("golden/qwen3-0.6b/chat/plain.json"))
    says = f"tokenizers {version('tokenizers')} with jinja2 {version('jinja2')}"
    assert says in json.dumps(golden["recorded"])
    assert golden["requests"][0]["tokens"] == 25


def test_beside_transformers_it_agrees_and_as_the_new_reference_it_rewrites_nothing(tmp_path: Path) -> None:
    both = ("transformers: {}", "tokenizers: {}")
    project = Project(tmp_path, {"tokenparity.yaml": config(*both), "chat.tokenparity.yaml": TOOL_CASES})
    assert project.pytest("--update-golden").passed(6)
    recorded = goldens(project)
    assert len(recorded) == 3
    project.write("tokenparity.yaml", config(*reversed(both)))
    result = project.pytest("--update-golden")
    assert result.passed(6), result.output
    assert recorded == goldens(project)


def goldens(project: Project) -> dict[str, bytes]:
    return {name: content for name, content in project.files().items() if name.startswith("golden/")}


def test_a_run_with_no_other_engine_imports_neither_transformers_nor_the_hub(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {"tokenparity.yaml": config(), "chat.tokenparity.yaml": TOOL_CASES, "conftest.py": SAYS_WHAT_IS_IMPORTED},
    )
    for arguments in (["--update-golden"], []):
        assert project.pytest(*arguments).passed(3)
        imported = json.loads(project.read("imported.json"))
        assert "tokenizers" in imported
        assert not {"transformers", "huggingface_hub", "numpy", "torch"} & set(imported)


def test_a_llama_server_that_fails_beside_it_is_explained_without_transformers(tmp_path: Path, qwen_url: str) -> None:
    project = Project(
        tmp_path,
        {
            "tokenparity.yaml": config("tokenizers: {}", f"llama-server: {{url: '{qwen_url}'}}"),
            "chat.tokenparity.yaml": TOOL_CASES,
            "conftest.py": SAYS_WHAT_IS_IMPORTED,
        },
    )
    result = project.pytest("--update-golden")
    assert result.code == 1, result.output
    assert "llama-server leaves the golden at token" in result.output
    assert "tool-field-dropped: " in result.output
    assert not {"transformers", "huggingface_hub"} & set(json.loads(project.read("imported.json")))


def test_a_syntax_error_in_a_configured_template_names_file_and_line(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "tokenparity.yaml": config(more="    template: mine.jinja\n"),
            "mine.jinja": "fine\n{% if %}",
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    result = project.pytest("--update-golden")
    assert result.code == 1
    assert "mine.jinja:2: Expected an expression, got 'end of statement block'" in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "golden").exists()


def test_a_template_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    engine = TokenizersTokens(small_folder(tmp_path), template="{% break %}", template_file="mine.jinja")
    with pytest.raises(EngineError) as raised:
        engine.render(HI)
    assert str(raised.value) == "mine.jinja has a syntax error: 'break' outside loop"


def test_a_broken_folder_is_one_line_that_names_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    shutil.copy(QWEN3 / "tokenizer.json", folder)
    (folder / "tokenizer_config.json").write_text("[]", encoding="utf-8")
    project = Project(tmp_path, {"tokenparity.yaml": config(tokenizer="tokenizer"), "chat.tokenparity.yaml": PLAIN})
    result = project.pytest("--update-golden")
    assert result.code == 1
    said = [line for line in result.output.splitlines() if "must hold a JSON object" in line and "FAILED" not in line]
    assert len(said) == 1
    assert said[0].startswith("tokenparity.yaml:3: models.qwen3-0.6b.tokenizer: ")
    assert "Traceback" not in result.output


def test_a_hub_id_that_cannot_be_fetched_is_one_clear_error(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "project",
        {
            "tokenparity.yaml": config(tokenizer="nobody/nothing", more="    revision: v1\n"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    before = project.files()
    result = project.pytest("--update-golden", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "hub"))
    assert result.code == 1
    assert "Traceback" not in result.output
    (said,) = [line for line in result.output.splitlines() if "no tokenizer from" in line and "FAILED" not in line]
    assert said.startswith(
        "tokenparity.yaml:3: models.qwen3-0.6b.tokenizer: no tokenizer from the Hub's nobody/nothing at v1: "
    )
    assert said.endswith("; a folder is given as a path relative to the configuration, such as ./nobody/nothing")
    assert before == project.files()


REVISION = "c1899de289a04d12100db370d81485cdf75e47ca"


def test_a_tokenizer_in_the_hubs_cache_is_read_offline(tmp_path: Path) -> None:
    repository = tmp_path / "hf" / "hub" / "models--Qwen--Qwen3-0.6B"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION, encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(QWEN3 / name, snapshot)
    (snapshot / "config.json").write_text('{"model_type": "qwen3"}', encoding="utf-8")  # Transformers 5 asks for it too
    project = Project(
        tmp_path / "project",
        {
            "tokenparity.yaml": config(tokenizer="Qwen/Qwen3-0.6B", more="    revision: main\n"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    result = project.pytest("--update-golden", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "hf"))
    assert result.passed(1), result.output
    assert json.loads(project.read("golden/qwen3-0.6b/chat/plain.json"))["requests"][0]["tokens"] == 25
