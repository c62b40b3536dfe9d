"""Every engine for one project, as its conftest gives them: real servers, recorded ones, fakes and a stand-in.

llama-server is real. vLLM and SGLang answer what real ones answered (``tests/recorded``). TGI and Ollama are fakes, each
of which names the source that it follows; they render by real parts: minijinja, and llama.cpp, which Ollama carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import minijinja

from pytest_tokenparity import OllamaTokens, Request, SglangTokens, TgiTokens, VllmTokenizeTokens, VllmTokens
from pytest_tokenparity.engines.base import Engine
from pytest_tokenparity.engines.tokenizers import TokenizersTokens, read_files

from ..real_models import QWEN3
from ..recorded.shapes import KEY
from .recorded import Recorded

Json = dict[str, Any]

RECORDED: Mapping[str, tuple[type[VllmTokens] | type[SglangTokens], str]] = {
    "vllm": (VllmTokens, "vllm-0.33.0"),
    "vllm-tokenize": (VllmTokenizeTokens, "vllm-0.33.0"),
    "sglang": (SglangTokens, "sglang-0.5.23"),
}


def engine(name: str, llama_url: str) -> Engine | None:
    """The engine of that name that no address leads to; None for the others."""
    if name in RECORDED:
        made, recording = RECORDED[name]
        return made("http://recorded", Recorded(recording), name=name, model="qwen3", api_key=KEY)
    if name == "tgi":
        return TgiTokens("http://fake", FakeTgi(), name=name)
    if name == "ollama":
        return OllamaTokens("http://fake", FakeOllama(llama_url), name=name, model="qwen3", tokenizer=read_files(QWEN3))
    return None


class FakeTgi(httpx.BaseTransport):
    """Stands for a TGI 3.3.7: `get_chat_tokenize` of `router/src/server.rs`, `infer/chat_template.rs` with minijinja.

    Blocks are not trimmed, `[::-1]` becomes `|reverse`, `add_generation_prompt` is always true and no switch reaches the
    template. What it makes of tools was not read closely enough to be followed: they are an AssertionError.
    """

    def __init__(self) -> None:
        self.model = TokenizersTokens(QWEN3)
        template = (self.model.template_for(Request([])) or "").replace("[::-1]", "|reverse")
        self.environment = minijinja.Environment(templates={"chat": template}, pycompat=True)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/info":
            return httpx.Response(200, json={"model_id": "Qwen/Qwen3-0.6B", "version": "3.3.7"})
        body: Json = json.loads(request.read())
        assert "tools" not in body
        messages = []
        for message in body["messages"]:
            content = message.get("content")
            if content is None and "tool_calls" not in message:
                return httpx.Response(422, text="data did not match any variant of untagged enum MessageBody")
            if isinstance(content, list):  # images apart, of which there are none here
                content = "".join(part["text"] for part in content)
            messages.append({**message, "content": content})
        text = self.environment.render_template(
            "chat", messages=messages, tools=None, add_generation_prompt=True, bos_token=None, eos_token="<|im_end|>"
        )
        encoded = self.model.files.tokenizer.encode(text, add_special_tokens=False)
        spans = zip(encoded.ids, encoded.offsets, strict=True)
        tokens = [{"id": it, "text": text[start:stop], "start": start, "stop": stop} for it, (start, stop) in spans]
        return httpx.Response(200, json={"tokenize_response": tokens, "templated_text": text})


class FakeOllama(httpx.BaseTransport):
    """Stands for an Ollama of August 2026 whose model has no Go template: `server/routes.go` with `_debug_render_only`.

    On that path Ollama hands the request, as its Go structs keep it (`api/types.go`), to the llama-server that it carries:
    here a real one. A model that can think does so unless `think` says otherwise.
    """

    def __init__(self, llama_url: str) -> None:
        self.llama = httpx.Client(base_url=llama_url, timeout=60)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/version":
            return httpx.Response(200, json={"version": "0.33.0"})
        body: Json = json.loads(request.read())
        messages = body["messages"]
        if not all(isinstance(message["content"], str) for message in messages):
            words = "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
            return httpx.Response(400, json={"error": words})
        asked: Json = {"messages": messages, "chat_template_kwargs": {"enable_thinking": body.get("think", True)}}
        if body.get("tools"):
            asked["tools"] = [_tool(tool) for tool in body["tools"]]
        answer = self.llama.post("/apply-template", json=asked)
        if answer.status_code != 200:
            return httpx.Response(400, json={"error": answer.json()["error"]["message"]})
        shown = {"rendered_template": answer.json()["prompt"], "image_count": 0}
        return httpx.Response(200, json={"model": "qwen3", "message": {}, "done": False, "_debug_info": shown})


_OF_SCHEMA = ("type", "$defs", "items", "required", "properties")
_OF_PROPERTY = ("anyOf", "type", "items", "description", "enum", "properties", "required")


def _tool(tool: Json) -> Json:
    """What `api.Tool` keeps of a tool, in its order."""
    function = tool["function"]
    schema = {key: function["parameters"][key] for key in _OF_SCHEMA if key in function["parameters"]}
    properties = {
        name: {key: value[key] for key in _OF_PROPERTY if key in value} for name, value in schema["properties"].items()
    }
    kept = {key: function[key] for key in ("name", "description") if key in function}
    return {"type": "function", "function": {**kept, "parameters": {**schema, "properties": properties}}}
