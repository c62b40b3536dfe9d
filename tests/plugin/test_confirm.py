"""``--tokenparity-confirm``: what an engine shows is held against a real call, which generates one token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pytest_tokenparity import (
    ClientCompletionTokens,
    Confirmation,
    EngineError,
    LlamaCppTokens,
    OllamaTokens,
    Request,
    SglangTokens,
    TgiTokens,
    VllmTokens,
)
from pytest_tokenparity.engines.tokenizers import read_files

from ..harness import QUESTION, Project, qwen_config
from ..llama_server import llama_server
from ..real_models import QWEN3, Servers

HI = Request([{"role": "user", "content": "Hi"}])
CASES = (
    QUESTION
    + "cases:\n  plain: {messages: question}\n  thinking-off: {messages: question, template_kwargs: {enable_thinking: false}}\n"
)


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server of `saving_url` saves its slots."""
    return tmp_path_factory.mktemp("slots")


@pytest.fixture(scope="module")
def saving_url(servers: Servers, slots: Path) -> Iterator[str]:
    """The address of a real llama-server that saves slots."""
    with llama_server(servers.gguf("qwen3"), slots) as url:
        yield url


def test_a_real_llama_server_and_a_posted_string_are_confirmed_by_their_number(tmp_path: Path, qwen_url: str) -> None:
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": CASES})
    output = project.pytest("--update-golden", "--tokenparity-confirm").output
    assert "6 passed" in output
    assert "\nconfirmed by a call: 4 of 4 (4 by the number of tokens alone)\n" in output


def test_a_real_llama_server_shows_the_ids_of_a_call_where_its_slots_can_be_read(
    tmp_path: Path, saving_url: str, slots: Path
) -> None:
    config = qwen_config(saving_url).replace(
        f"{{url: '{saving_url}'}}", f"{{url: '{saving_url}', slot_save_path: '{slots}'}}"
    )
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": CASES})
    output = project.pytest("--update-golden", "--tokenparity-confirm", "-k", "not posted").output
    assert "4 passed" in output
    assert "\nconfirmed by a call: 2 of 2\n" in output
    assert not list(slots.iterdir())


def test_the_ids_of_a_slot_are_those_of_the_call_and_not_of_the_one_before(saving_url: str, slots: Path) -> None:
    with LlamaCppTokens(saving_url, slot_save_path=str(slots)) as engine:
        for words in ("Hi", "Hi there", "Hi"):
            request = Request([{"role": "user", "content": words}])
            confirmation = engine.confirm(request)
            assert confirmation is not None
            assert confirmation.ids == engine.render(request).ids


def test_a_slot_that_is_saved_elsewhere_is_one_clear_line(saving_url: str, slots: Path, tmp_path: Path) -> None:
    with LlamaCppTokens(saving_url, slot_save_path=str(tmp_path)) as engine, pytest.raises(EngineError) as raised:
        engine.confirm(HI)
    assert "`slot_save_path` is the folder of its --slot-save-path, as this machine sees it" in str(raised.value)
    for file in slots.iterdir():
        file.unlink()


def test_a_llama_server_that_saves_no_slots_says_what_it_needs(qwen_url: str, tmp_path: Path) -> None:
    with LlamaCppTokens(qwen_url, slot_save_path=str(tmp_path)) as engine, pytest.raises(EngineError) as raised:
        engine.confirm(HI)
    assert "--slot-save-path" in str(raised.value)


STRAY = """
from pytest_tokenparity import LlamaCppTokens, Rendering


class Stray(LlamaCppTokens):
    '''Shows IDs that a call is not given: {how}.'''

    def __init__(self, url):
        super().__init__(url, name="stray")

    def render(self, request):
        shown = super().render(request)
        return Rendering(ids={ids}, text=shown.text)
"""


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (
            "[*shown.ids, 5]",
            "a call of stray was given 25 tokens (usage.prompt_tokens of /v1/chat/completions), it rendered 26",
        ),
        (
            "shown.ids[:-1]",
            "a call of stray was given 25 tokens (usage.prompt_tokens of /v1/chat/completions), it rendered 24",
        ),
    ],
)
def test_an_engine_that_shows_another_prompt_than_a_call_is_given_fails(
    tmp_path: Path, qwen_url: str, ids: str, says: str
) -> None:
    config = f"models:\n  m:\n    tokenizer: {QWEN3}\n    engines:\n      stray: {{type: 'stray:Stray', url: '{qwen_url}'}}\n"
    cases = QUESTION + "cases:\n  plain: {messages: question}\n"
    files = {"tokenparity.yaml": config, "chat.tokenparity.yaml": cases, "stray.py": STRAY.format(how="", ids=ids)}
    project = Project(tmp_path, files)
    assert project.pytest("--update-golden").passed(1), "without a call it stands by itself"
    output = project.pytest("--tokenparity-confirm").output
    assert says in output
    assert "\nconfirmed by a call: 0 of 1\n" in output


def answering(*answers: tuple[str, object]) -> httpx.MockTransport:
    """A server of documented shapes: an answer for each path, 404 elsewhere."""
    replies = dict(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path not in replies:
            return httpx.Response(404, json={"error": {"message": "Not Found"}})
        return httpx.Response(200, json=replies[request.url.path])

    return httpx.MockTransport(answer)


CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def test_vllm_tells_the_ids_of_a_call() -> None:
    """As 0.32.0 answers with `return_token_ids` (tests/live/test_vllm_generates.py)."""
    with VllmTokens("http://x", answering((CHAT, {"prompt_token_ids": [1, 2, 3]}))) as engine:
        confirmation = engine.confirm(HI)
    assert confirmation is not None
    assert (confirmation.ids, confirmation.how) == ([1, 2, 3], f"prompt_token_ids of {CHAT}")


def test_vllm_tells_the_ids_of_a_posted_string_in_its_choice() -> None:
    """As 0.32.0 answers (tests/live/test_vllm_generates.py)."""
    body = {"choices": [{"text": "a", "prompt_token_ids": [2, 2, 3]}], "usage": {"prompt_tokens": 3}}
    with posted_to_vllm(answering((COMPLETIONS, body))) as client:
        assert client.confirm(HI) == Confirmation(ids=[2, 2, 3], how=f"prompt_token_ids of {COMPLETIONS}")


@pytest.mark.parametrize("choices", [None, [], [{}], [{"prompt_token_ids": None}], ["x"]])
def test_a_completion_of_vllms_that_tells_no_ids_confirms_nothing(choices: object) -> None:
    with posted_to_vllm(answering((COMPLETIONS, {"choices": choices}))) as client, pytest.raises(EngineError) as raised:
        client.confirm(HI)
    assert 'expected {"prompt_token_ids": [...]}' in str(raised.value)


def test_a_vllm_that_only_renders_cannot_be_confirmed() -> None:
    with VllmTokens("http://x", answering()) as engine:
        assert engine.confirm(HI) == Confirmation()
    with posted_to_vllm(answering()) as client:
        assert client.confirm(HI) == Confirmation()


def posted_to_vllm(transport: httpx.BaseTransport) -> ClientCompletionTokens:
    def render(conversation: object, tools: object = None) -> str:
        return "Hi"

    return ClientCompletionTokens(render, "http://x", transport, server="vllm")


def test_sglang_tells_the_ids_of_a_call() -> None:
    """By the shape of its protocol (`return_prompt_token_ids`): no server that generates was asked."""
    body = {"choices": [{"prompt_token_ids": [1, 2, 3]}]}
    with SglangTokens("http://x", answering((CHAT, body), ("/v1/models", {"data": []}))) as engine:
        confirmation = engine.confirm(HI)
    assert confirmation is not None
    assert confirmation.ids == [1, 2, 3]


def test_tgi_and_ollama_tell_the_number() -> None:
    """By the shapes of their sources."""
    with TgiTokens("http://x", answering((CHAT, {"usage": {"prompt_tokens": 7}}))) as tgi:
        found = tgi.confirm(HI)
    assert found is not None
    assert (found.ids, found.count) == (None, 7)
    chat = answering(("/api/chat", {"prompt_eval_count": 8}))
    with OllamaTokens("http://x", chat, model="m", tokenizer=read_files(QWEN3)) as ollama:
        found = ollama.confirm(HI)
    assert found is not None
    assert (found.ids, found.count) == (None, 8)


@pytest.mark.parametrize("number", [True, "7", None, 7.0])
def test_what_is_no_number_confirms_nothing(number: object) -> None:
    with (
        TgiTokens("http://x", answering((CHAT, {"usage": {"prompt_tokens": number}}))) as tgi,
        pytest.raises(EngineError),
    ):
        tgi.confirm(HI)


def test_a_client_that_posts_ids_cannot_be_confirmed() -> None:
    def render(conversation: object, tools: object = None, **switches: object) -> str:
        return "Hi"

    with ClientCompletionTokens(render, "http://x", answering(), parse_special=False) as client:
        assert client.confirm(HI) == Confirmation()


PARTLY = """
from pytest_tokenparity import Confirmation, Engine, Rendering


class Partly(Engine):
    '''Shows a text or a count, and makes a call.'''

    name = "partly"

    def __init__(self, shows, called):
        self.shows, self.called = shows, called

    def render(self, request):
        if self.shows == "count":
            return Rendering(count=25, unseen=("its IDs",))
        text = "".join(f"<|im_start|>{it['role']}\\n{it['content']}<|im_end|>\\n" for it in request.messages)
        return Rendering(text=text + "<|im_start|>assistant\\n", unseen=("its IDs",))

    def confirm(self, request):
        return Confirmation(count=self.called, how="its call")
"""


@pytest.mark.parametrize(
    ("shows", "called", "says"),
    [
        ("text", 25, "\nconfirmed by a call: 1 of 1 (1 by the number of tokens alone)\n"),
        ("count", 25, "\nconfirmed by a call: 1 of 1 (1 by the number of tokens alone)\n"),
        ("text", 3, "a call of partly was given 3 tokens (its call), the golden has 25"),
        ("count", 3, "a call of partly was given 3 tokens (its call), it rendered 25"),
    ],
)
def test_an_engine_that_shows_less_than_ids_is_confirmed_too(
    tmp_path: Path, shows: str, called: int, says: str
) -> None:
    engines = f"{{tokenizers: {{}}, partly: {{type: 'partly:Partly', shows: {shows}, called: {called}}}}}"
    files = {
        "tokenparity.yaml": f"models: {{m: {{tokenizer: {QWEN3}, engines: {engines}}}}}\n",
        "chat.tokenparity.yaml": QUESTION + "cases:\n  plain: {messages: question}\n",
        "partly.py": PARTLY,
    }
    assert says in Project(tmp_path, files).pytest("--update-golden", "--tokenparity-confirm", COLUMNS="200").output
