"""The in-process engine: what it gives is what `apply_chat_template` gives, and each way to have none has its message."""

from __future__ import annotations

import copy
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import EngineError, Rendering, Request, RequestRefused, TransformersTokens

from ..harness import PLAIN, Project
from ..real_models import GEMMA3, QWEN3, SHA256

HI = [{"role": "user", "content": "Hi"}]
TALK = [
    {"role": "user", "content": "Count to three."},
    {"role": "assistant", "content": "One, two,"},
]
TOOL = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}}}
REVISION = "c1899de289a04d12100db370d81485cdf75e47ca"


@pytest.mark.parametrize("family", ["qwen", "gemma"])
@pytest.mark.parametrize(
    ("request_", "arguments"),
    [
        (Request(HI), {"add_generation_prompt": True}),
        (
            Request(HI, template_kwargs={"enable_thinking": False}),
            {"add_generation_prompt": True, "enable_thinking": False},
        ),
        (Request(HI, [TOOL]), {"add_generation_prompt": True, "tools": [TOOL]}),
        (Request(HI, []), {"add_generation_prompt": True, "tools": []}),
        (Request(TALK, add_generation_prompt=False), {"add_generation_prompt": False}),
        (
            Request(TALK, add_generation_prompt=False, continue_final_message=True),
            {"continue_final_message": True},
        ),
    ],
    ids=["plain", "thinking-off", "tools", "no tools in a list", "no generation prompt", "continued"],
)
def test_the_ids_are_those_of_apply_chat_template_itself(
    family: str, request_: Request, arguments: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(f"{family}_tokenizer")
    expected = tokenizer.apply_chat_template(list(request_.messages), tokenize=True, return_dict=False, **arguments)
    assert Rendering(ids=list(expected)) == TransformersTokens(tokenizer).render(request_)


def test_the_text_is_that_of_apply_chat_template_itself(qwen_tokenizer: Any) -> None:
    expected = qwen_tokenizer.apply_chat_template(HI, tokenize=False, add_generation_prompt=True)
    assert expected == TransformersTokens(qwen_tokenizer).text(Request(HI))


def test_a_folder_is_loaded_as_the_tokenizer_that_is_in_it(qwen_tokenizer: Any) -> None:
    expected = TransformersTokens(qwen_tokenizer).ids(HI)
    assert expected == TransformersTokens(str(QWEN3)).ids(HI)
    assert expected == TransformersTokens(QWEN3).ids(HI)


def test_the_clock_is_what_strftime_now_sees(qwen_tokenizer: Any) -> None:
    engine = TransformersTokens(
        qwen_tokenizer,
        template="{% macro date() %}{{ strftime_now('%d %b %Y') }}{% endmacro %}{{ date() }} {{ strftime_now('%H:%M:%S') }}",
        clock=datetime(2026, 1, 2, 3, 4, 5),
    )
    assert engine.text(Request(HI)) == "02 Jan 2026 03:04:05"


def test_without_a_clock_strftime_now_sees_the_real_one(qwen_tokenizer: Any) -> None:
    before = datetime.now()
    text = TransformersTokens(qwen_tokenizer, template="{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}").text(Request(HI))
    assert before <= datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f") <= datetime.now()


def test_a_template_overrides_the_tokenizers_own(qwen_tokenizer: Any) -> None:
    engine = TransformersTokens(
        qwen_tokenizer, template="{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    assert engine.text(Request(HI)) == "[user]Hi"
    assert qwen_tokenizer("[user]Hi")["input_ids"] == engine.ids(HI)


def test_a_named_template_for_tools_is_used_when_the_request_has_tools(qwen_tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(qwen_tokenizer)
    tokenizer.chat_template = {"default": "plain", "tool_use": "with {{ tools | length }} tool"}
    engine = TransformersTokens(tokenizer)
    assert engine.text(Request(HI)) == "plain"
    assert engine.text(Request(HI, [TOOL])) == "with 1 tool"


def test_a_template_may_mark_what_the_model_generates(qwen_tokenizer: Any) -> None:
    template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
    assert TransformersTokens(qwen_tokenizer, template=template).text(Request(HI + HI)) == "Hi"


# Refusals: what the template raises while rendering


def test_qwen3s_template_refuses_content_parts(qwen_tokenizer: Any) -> None:
    request = Request([{"role": "user", "content": [{"type": "text", "text": "a"}]}])
    expected = Rendering(refused="'list object' has no attribute 'startswith'")
    assert expected == TransformersTokens(qwen_tokenizer).render(request)


def test_qwen3s_template_refuses_null_content(qwen_tokenizer: Any) -> None:
    rendering = TransformersTokens(qwen_tokenizer).render(Request([{"role": "user", "content": None}]))
    # Transformers 5 takes null values out of messages before it renders, 4 does not.
    said = ("'None' has no attribute 'startswith'", "'dict object' has no attribute 'content'")
    assert (rendering.ids, rendering.refused in said) == (None, True)


def test_gemma_3s_template_refuses_two_user_turns_in_a_row(gemma_tokenizer: Any) -> None:
    expected = Rendering(refused="Conversation roles must alternate user/assistant/user/assistant/...")
    assert expected == TransformersTokens(gemma_tokenizer).render(Request(HI + HI))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('no ' ~ messages[0].role) }}", "no user"),
        ("{{ raise_exception('two\n  lines') }}", "two lines"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ missing.key.other }}", "'missing' is undefined"),
        ("{{ raise_exception('') }}", "TemplateError"),
    ],
)
def test_any_exception_that_a_template_raises_while_rendering_is_a_refusal(
    qwen_tokenizer: Any, template: str, message: str
) -> None:
    assert Rendering(refused=message) == TransformersTokens(qwen_tokenizer, template=template).render(Request(HI))


def test_ids_raises_a_refusal_with_the_engines_name(qwen_tokenizer: Any) -> None:
    engine = TransformersTokens(qwen_tokenizer, template="{{ raise_exception('not today') }}")
    with pytest.raises(RequestRefused) as raised:
        engine.ids(HI)
    assert str(raised.value) == "transformers refuses the request: not today"


def test_continuing_the_final_message_with_a_generation_prompt_is_refused(qwen_tokenizer: Any) -> None:
    rendering = TransformersTokens(qwen_tokenizer).render(Request(TALK, continue_final_message=True))
    assert rendering.ids is None
    assert rendering.refused is not None
    assert rendering.refused.startswith("continue_final_message and add_generation_prompt are not compatible")


# No rendering at all: one readable error


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("fine\n{% if %}", "on line 2: Expected an expression, got 'end of statement block'"),
        ("{{ messages", "on line 1: unexpected end of template, expected 'end of print statement'."),
        ("{% for m in messages %}", "on line 1: Unexpected end of template."),
    ],
)
def test_a_template_with_a_syntax_error_is_no_refusal(qwen_tokenizer: Any, template: str, message: str) -> None:
    with pytest.raises(EngineError) as raised:
        TransformersTokens(qwen_tokenizer, template=template).render(Request(HI))
    assert str(raised.value).startswith(f"transformers: the chat template has a syntax error {message}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ messages | no_such_filter }}", " on line 1: No filter named 'no_such_filter'."),
        ("{{ messages is no_such_test }}", " on line 1: No test named 'no_such_test'."),
        ("{% break %}", ": 'break' outside loop"),
    ],
)
def test_a_template_that_does_not_compile_is_no_refusal_either(
    qwen_tokenizer: Any, template: str, message: str
) -> None:
    with pytest.raises(EngineError) as raised:
        TransformersTokens(qwen_tokenizer, template=template).render(Request(HI))
    assert str(raised.value).startswith(f"transformers: the chat template has a syntax error{message}")


def test_a_tokenizer_without_a_template_says_how_to_give_one(qwen_tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(qwen_tokenizer)
    tokenizer.chat_template = None
    with pytest.raises(EngineError) as raised:
        TransformersTokens(tokenizer).render(Request(HI))
    assert str(raised.value) == "transformers: the tokenizer has no chat template; give one with `template:`"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as raised:
        TransformersTokens(tmp_path / "missing")
    assert f"the tokenizer folder {tmp_path / 'missing'} is not there" == str(raised.value)


def test_an_empty_folder_is_named_with_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as raised:
        TransformersTokens(tmp_path)
    assert (f"the folder {tmp_path} holds no tokenizer: it needs tokenizer.json and tokenizer_config.json") == str(
        raised.value
    )


def test_a_folder_with_a_damaged_tokenizer_is_named_in_one_line(tmp_path: Path) -> None:
    shutil.copy(QWEN3 / "tokenizer_config.json", tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", ', encoding="utf-8")
    with pytest.raises(EngineError) as raised:
        TransformersTokens(tmp_path)
    assert str(raised.value).startswith(f"no tokenizer from the folder {tmp_path}: ")
    assert "\n" not in str(raised.value)


# Through a project: the clock of the configuration, the Hub


def config_of(tokenizer: str, more: str = "") -> str:
    return f"models:\n  qwen3-0.6b:\n    tokenizer: {tokenizer}\n{more}    engines: {{transformers: {{}}}}\n"


@pytest.mark.parametrize(
    ("more", "date"),
    [("", "2026-01-02 03:04:05"), ("    clock: 2031-12-24T18:00:00\n", "2031-12-24 18:00:00")],
    ids=["the fixed default", "set"],
)
def test_a_projects_clock_is_never_the_real_one(tmp_path: Path, more: str, date: str) -> None:
    project = Project(
        tmp_path,
        {
            "tokenparity.yaml": config_of(str(QWEN3), "    template: dated.jinja\n" + more),
            "dated.jinja": "{{ strftime_now('%Y-%m-%d %H:%M:%S') }}",
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    result = project.pytest("--update-golden")
    assert result.passed(1), result.output
    (request,) = json.loads(project.read("golden/qwen3-0.6b/chat/plain.json"))["requests"]
    assert date == "".join(text for _, text in request["append"])


def test_a_hub_id_that_cannot_be_fetched_is_one_clear_error_and_records_nothing(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "project",
        {"tokenparity.yaml": config_of("nobody/nothing", "    revision: v1\n"), "chat.tokenparity.yaml": PLAIN},
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
    assert ". " not in said.partition("nothing at v1: ")[2]
    assert before == project.files()


@pytest.mark.parametrize("revision", [None, "main", REVISION])
def test_a_tokenizer_in_the_hubs_cache_loads_offline_by_id_and_revision(tmp_path: Path, revision: str | None) -> None:
    # The layout of huggingface_hub's cache: refs name a commit, snapshots hold the files of one.
    repository = tmp_path / "hf" / "hub" / "models--Qwen--Qwen3-0.6B"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION, encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(QWEN3 / name, snapshot)
    (snapshot / "config.json").write_text('{"model_type": "qwen3"}', encoding="utf-8")  # Transformers 5 asks for it too
    more = f"    revision: {revision}\n" if revision else ""
    project = Project(
        tmp_path / "project",
        {"tokenparity.yaml": config_of("Qwen/Qwen3-0.6B", more), "chat.tokenparity.yaml": PLAIN},
    )
    result = project.pytest("--update-golden", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "hf"))
    assert result.passed(1), result.output
    golden = json.loads(project.read("golden/qwen3-0.6b/chat/plain.json"))
    assert SHA256[QWEN3] == golden["recorded"]["tokenizer_sha256"]
    assert golden["requests"][0]["tokens"] == 25


def test_the_tokenizers_hash_is_that_of_its_file(gemma_tokenizer: Any, qwen_tokenizer: Any) -> None:
    from pytest_tokenparity.engines.transformers import tokenizer_sha256

    assert SHA256[GEMMA3] == tokenizer_sha256(gemma_tokenizer)
    assert SHA256[QWEN3] == tokenizer_sha256(qwen_tokenizer)
