"""The engines that come with the package, and the options each takes in `tokenparity.yaml`. Imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineType:
    """One engine type: the class behind it, and its options, each with the Python types its value may have."""

    home: str
    """``module:Class`` in this package."""
    options: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values that an option may have, where they are few."""

    @property
    def is_server(self) -> bool:
        return "url" in self.options


_TEXT, _FLAG, _NUMBER, _MAPPING = (str,), (bool,), (int, float), (dict,)
_SERVER: Mapping[str, tuple[type, ...]] = {
    "url": _TEXT,
    "model": _TEXT,
    "timeout": _NUMBER,
    "api_key_env": _TEXT,
    "headers": _MAPPING,
    "verify": (bool, str),
    "concurrency": (int,),
}


def _server(home: str, **options: tuple[type, ...]) -> EngineType:
    return EngineType(home, {**_SERVER, **options}, required=("url",))


BUILTIN_ENGINES: Mapping[str, EngineType] = {
    "transformers": EngineType("transformers:TransformersTokens", {"model": _TEXT}),
    "tokenizers": EngineType("tokenizers:TokenizersTokens", {"model": _TEXT}),
    "llama-server": _server("llama_server:LlamaCppTokens", slot_save_path=_TEXT),
    "vllm": _server("vllm:VllmTokens"),
    "vllm-tokenize": _server("vllm:VllmTokenizeTokens"),
    "sglang": _server("sglang:SglangTokens"),
    "tgi": _server("tgi:TgiTokens"),
    "ollama": EngineType("ollama:OllamaTokens", _SERVER, required=("url", "model")),
    "shimmy": EngineType(
        "shimmy:ShimmyTokens",
        {"model": _TEXT, "family": _TEXT, "parse_special": _FLAG},
        choices={"family": ("ChatML", "Llama3", "OpenChat")},
    ),
    "mistral-common": EngineType("mistral_common:MistralCommonTokens", {"model": _TEXT, "file": _TEXT}),
    "client-completion": EngineType(
        "client_completion:ClientCompletionTokens",
        {**_SERVER, "server": _TEXT, "render": _TEXT, "add_special": _FLAG, "parse_special": _FLAG},
        required=("url",),
        choices={"server": ("llama-server", "vllm", "sglang")},
    ),
}
