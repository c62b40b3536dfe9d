"""The reference of Qwen3, which needs no Transformers."""

from __future__ import annotations

import pytest

from pytest_tokenparity.engines.tokenizers import TokenizersTokens

from ..real_models import QWEN3


@pytest.fixture(scope="session")
def qwen_reference() -> TokenizersTokens:
    """Qwen3 as Transformers renders it, by Jinja2 and `tokenizers` alone."""
    return TokenizersTokens(QWEN3)
