"""Golden token-ID tests: the same chat request through every engine, compared token for token.

The names below are the public API and work without pytest. Engines are imported when they are first asked for, so that
``import pytest_tokenparity`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    ConfigError,
    EngineError,
    EngineUnreachable,
    GoldenError,
    InvalidConversation,
    RequestRefused,
    TokenParityError,
    TokenParityWarning,
)

if TYPE_CHECKING:
    from .causes.explanation import Explanation, explain
    from .compare import TokenDivergence, compare_token_renders, first_divergence
    from .engines.base import Confirmation, Engine, Rendering, TokenRenderer
    from .engines.client_completion import ClientCompletionTokens
    from .engines.llama_server import LlamaCppTokens
    from .engines.mistral_common import MistralCommonTokens
    from .engines.ollama import OllamaTokens
    from .engines.sglang import SglangTokens
    from .engines.shimmy import ShimmyTokens
    from .engines.tgi import TgiTokens
    from .engines.tokenizers import TokenizersTokens
    from .engines.transformers import TransformersTokens
    from .engines.vllm import VllmTokenizeTokens, VllmTokens
    from .messages import assert_valid, request_points
    from .prefix import PrefixBreak, assert_prefix_stable, find_prefix_breaks
    from .request import Request
    from .tools import request_tool

_HOMES = {
    "ClientCompletionTokens": "engines.client_completion",
    "Confirmation": "engines.base",
    "Engine": "engines.base",
    "Explanation": "causes.explanation",
    "LlamaCppTokens": "engines.llama_server",
    "MistralCommonTokens": "engines.mistral_common",
    "OllamaTokens": "engines.ollama",
    "SglangTokens": "engines.sglang",
    "ShimmyTokens": "engines.shimmy",
    "TgiTokens": "engines.tgi",
    "VllmTokens": "engines.vllm",
    "VllmTokenizeTokens": "engines.vllm",
    "PrefixBreak": "prefix",
    "Rendering": "engines.base",
    "Request": "request",
    "TokenDivergence": "compare",
    "TokenRenderer": "engines.base",
    "TokenizersTokens": "engines.tokenizers",
    "TransformersTokens": "engines.transformers",
    "assert_prefix_stable": "prefix",
    "assert_valid": "messages",
    "compare_token_renders": "compare",
    "explain": "causes.explanation",
    "find_prefix_breaks": "prefix",
    "first_divergence": "compare",
    "request_points": "messages",
    "request_tool": "tools",
}

__all__ = [
    "ClientCompletionTokens",
    "ConfigError",
    "Confirmation",
    "Engine",
    "EngineError",
    "EngineUnreachable",
    "Explanation",
    "GoldenError",
    "InvalidConversation",
    "LlamaCppTokens",
    "MistralCommonTokens",
    "OllamaTokens",
    "PrefixBreak",
    "Rendering",
    "Request",
    "RequestRefused",
    "SglangTokens",
    "ShimmyTokens",
    "TgiTokens",
    "TokenDivergence",
    "TokenParityError",
    "TokenParityWarning",
    "TokenRenderer",
    "TokenizersTokens",
    "TransformersTokens",
    "VllmTokenizeTokens",
    "VllmTokens",
    "assert_prefix_stable",
    "assert_valid",
    "compare_token_renders",
    "explain",
    "find_prefix_breaks",
    "first_divergence",
    "request_points",
    "request_tool",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
