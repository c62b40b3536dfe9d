"""A client that renders the prompt itself: whose text it posts, and what goes wrong in other people's `render`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jinja2
import pytest

from pytest_tokenparity import (
    ClientCompletionTokens,
    EngineError,
    Rendering,
    Request,
    RequestRefused,
    TransformersTokens,
)
from pytest_tokenparity.engines import Surroundings, build_engine
from pytest_tokenparity.engines.base import Engine, Wait
from pytest_tokenparity.engines.client_completion import import_render
from pytest_tokenparity.engines.tokenizers import read_files

from ..harness import PLAIN, Project, qwen_config
from ..real_models import QWEN3

HI = [{"role": "user", "content": "Hi"}]
TALK = [*HI, {"role": "assistant", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


@contextmanager
def closing(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.close()


def configured(
    url: str, reference: TransformersTokens, options: dict[str, Any] | None = None, folder: Path = Path()
) -> Engine:
    """The engine as a configuration makes it."""
    return build_engine(
        "posted-string",
        "client-completion",
        {"url": url, **(options or {})},
        Surroundings(
            place="tokenparity.yaml:6: models.m.engines.posted-string",
            folder=folder,
            wait=Wait(),
            model_name="m",
            local=lambda type_, name: reference,
            reference=lambda: reference,
            files=lambda: read_files(QWEN3),
            tokenizer=lambda: str(QWEN3),
        ),
    )


@pytest.mark.parametrize(
    "request_",
    [
        Request(HI),
        Request(HI, [TOOL]),
        Request(HI, template_kwargs={"enable_thinking": False}),
        Request(TALK, add_generation_prompt=False),
        Request(TALK, add_generation_prompt=False, continue_final_message=True),
    ],
    ids=["plain", "tools", "thinking-off", "no generation prompt", "continued"],
)
def test_the_default_render_is_the_references_text(qwen_url: str, qwen_tokenizer: Any, request_: Request) -> None:
    reference = TransformersTokens(qwen_tokenizer)
    with closing(configured(qwen_url, reference)) as engine:
        expected = Rendering(ids=reference.render(request_).ids, text=reference.text(request_))
        assert expected == engine.render(request_)


def test_what_the_reference_refuses_its_text_refuses_too(qwen_url: str, qwen_tokenizer: Any) -> None:
    reference = TransformersTokens(qwen_tokenizer)
    request = Request([{"role": "user", "content": [{"type": "text", "text": "a"}]}])
    with closing(configured(qwen_url, reference)) as engine:
        assert reference.render(request) == engine.render(request)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, [2, 2, 10979]),
        ({"add_special": False}, [2, 10979]),
        ({"parse_special": False}, [2, 236820, 46757, 236813, 10979]),
    ],
    ids=["as /completion does it", "no special token added", "special tokens as letters"],
)
def test_the_string_is_tokenized_as_the_client_does_it(gemma_url: str, options: dict[str, Any], ids: list[int]) -> None:
    with closing(ClientCompletionTokens(lambda conversation, tools=None: "<bos>Hi", gemma_url, **options)) as engine:
        assert ids == engine.ids(HI)


def test_flags_reach_render_only_when_they_are_not_the_default(qwen_url: str) -> None:
    seen: list[tuple[Any, dict[str, Any]]] = []

    def render(conversation: Any, tools: Any = None, **template_kwargs: Any) -> str:
        seen.append((tools, template_kwargs))
        return "Hi"

    with closing(ClientCompletionTokens(render, qwen_url)) as engine:
        engine.ids(HI)
        engine.ids(HI, [TOOL], enable_thinking=False, add_generation_prompt=True, continue_final_message=False)
        engine.ids(TALK, add_generation_prompt=False)
        engine.ids(TALK, continue_final_message=True)
    assert seen == [
        (None, {}),
        ([TOOL], {"enable_thinking": False}),
        (None, {"add_generation_prompt": False}),
        (None, {"add_generation_prompt": False, "continue_final_message": True}),
    ]


def test_a_render_that_changes_its_arguments_does_not_change_what_others_see(qwen_url: str) -> None:
    def spoil(conversation: Any, tools: Any = None, **template_kwargs: Any) -> str:
        conversation[0]["content"] = "spoilt"
        conversation.append({"role": "user", "content": "more"})
        tools[0]["function"].clear()
        template_kwargs["nested"]["deep"].append(1)
        return "Hi"

    request = Request(copy.deepcopy(HI), [copy.deepcopy(TOOL)], {"nested": {"deep": []}})
    with closing(ClientCompletionTokens(spoil, qwen_url)) as engine:
        engine.render(request)
    assert Request(HI, [TOOL], {"nested": {"deep": []}}) == request


# Faults of a render; none of them reaches a server


def unasked(render: Callable[..., Any]) -> ClientCompletionTokens:
    """An engine whose server must not be asked (a fake: it raises)."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.url} was asked")

    return ClientCompletionTokens(render, "http://localhost:1", transport=httpx.MockTransport(answer))


def test_what_render_raises_is_a_fault_that_says_where() -> None:
    def render(conversation: Any, tools: Any = None) -> str:
        return str(conversation[0]["system prompt"])

    line = render.__code__.co_firstlineno + 1
    with closing(unasked(render)) as engine, pytest.raises(EngineError) as caught:
        engine.render(Request(HI))
    place = f"test_client_completion.py:{line}"
    assert str(caught.value) == f"client-completion: `render` raised KeyError: 'system prompt' ({place})"


def test_what_a_template_raises_in_a_render_is_a_refusal() -> None:
    def render(conversation: Any, tools: Any = None) -> str:
        return str(jinja2.Template("{{ conversation[0].absent.words }}").render(conversation=conversation))

    with closing(unasked(render)) as engine:
        refused = engine.render(Request(HI)).refused
    assert refused is not None
    assert refused.startswith("render raised UndefinedError: 'dict object' has no attribute 'absent'")


def test_a_refusal_that_render_raises_keeps_its_words() -> None:
    def render(conversation: Any, tools: Any = None) -> str:
        raise RequestRefused("no system turn")

    with closing(unasked(render)) as engine:
        assert Rendering(refused="no system turn") == engine.render(Request(HI))


@pytest.mark.parametrize(
    ("answer", "kind"), [(None, "NoneType"), (b"Hi", "bytes"), ([1, 2], "list"), (12, "int")], ids=str
)
def test_a_render_must_return_a_string(answer: Any, kind: str) -> None:
    with closing(unasked(lambda conversation, tools=None: answer)) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert f"client-completion: `render` must return the prompt as a string, it returned {kind}" == str(raised.value)


PLACE = "tokenparity.yaml:6: models.m.engines.posted-string"


def write_module(folder: Path, name: str, text: str) -> str:
    """A module of that name, which no other test imports."""
    module = f"{name}_{folder.name}"
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    return module


def test_a_render_of_ones_own_is_imported_from_the_configurations_folder(tmp_path: Path) -> None:
    module = write_module(
        tmp_path,
        "prompts",
        "class Chat:\n    @staticmethod\n    def render(conversation, tools=None):\n        return conversation[0]['content']\n",
    )
    before = list(sys.path)
    render = import_render(f"{module}:Chat.render", tmp_path, PLACE)
    assert render(HI) == "Hi"
    assert before == sys.path


@pytest.mark.parametrize("path", ["prompts", "prompts:", ":render", ""])
def test_a_render_is_a_module_a_colon_and_a_function(tmp_path: Path, path: str) -> None:
    with pytest.raises(EngineError) as raised:
        import_render(path, tmp_path, PLACE)
    assert f"{PLACE}: `render` must be `module:function`, found {path!r}" == str(raised.value)


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    before = list(sys.path)
    with pytest.raises(EngineError) as raised:
        import_render("no_such_prompts:render", tmp_path, PLACE)
    assert str(raised.value).startswith(
        f"{PLACE}: `render: no_such_prompts:render` cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_prompts'"
    )
    assert before == sys.path


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    module = write_module(tmp_path, "without", "")
    with pytest.raises(EngineError) as raised:
        import_render(f"{module}:render", tmp_path, PLACE)
    assert str(raised.value).startswith(
        f"{PLACE}: `render: {module}:render` cannot be imported: "
        f"AttributeError: module '{module}' has no attribute 'render'"
    )


def test_a_module_that_raises_is_named_with_the_line(tmp_path: Path) -> None:
    module = write_module(tmp_path, "raising", "import json\n\njson.loads('')\n")
    with pytest.raises(EngineError) as raised:
        import_render(f"{module}:render", tmp_path, PLACE)
    assert str(raised.value).startswith(f"{PLACE}: `render: {module}:render` cannot be imported: JSONDecodeError: ")


def test_a_render_that_is_no_function_is_named(tmp_path: Path) -> None:
    module = write_module(tmp_path, "text", "render = 'Hi'\n")
    with pytest.raises(EngineError) as raised:
        import_render(f"{module}:render", tmp_path, PLACE)
    assert f"{PLACE}: `render: {module}:render` is str, not a function" == str(raised.value)


def test_a_project_posts_the_string_of_its_own_module(tmp_path: Path, qwen_url: str) -> None:
    engines = "".join(
        f"      {name}: {{type: client-completion, url: '{qwen_url}', render: 'app.prompts:{name}'}}\n"
        for name in ("right", "cut", "raising")
    )
    own = """
def right(conversation, tools=None, **template_kwargs):
    turns = [f"<|im_start|>{m['role']}\\n{m['content']}<|im_end|>\\n" for m in conversation]
    return "".join(turns) + "<|im_start|>assistant\\n"

def cut(conversation, tools=None, **template_kwargs):
    return right(conversation).rstrip()

def raising(conversation, tools=None, **template_kwargs):
    raise ValueError("no key")
"""
    files = {
        "tokenparity.yaml": qwen_config() + engines,
        "chat.tokenparity.yaml": PLAIN,
        "app/__init__.py": "",
        "app/prompts.py": own,
    }
    output = Project(tmp_path, files).pytest("--update-golden", COLUMNS="200").output
    assert "2 failed, 2 passed" in output
    assert "\ncut leaves the golden at token 24 (25 tokens recorded, 24 rendered)\n" in output
    said = "raising: `render` raised ValueError: no key (prompts.py:10)"
    assert f"\n{said}\n" in output
