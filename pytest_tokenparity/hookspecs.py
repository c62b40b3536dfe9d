"""The hook through which a conftest or another plugin brings an engine of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .engines.base import TokenRenderer


@pytest.hookspec(firstresult=True)
def pytest_tokenparity_engine(
    config: pytest.Config, model: str, name: str, options: Mapping[str, Any]
) -> TokenRenderer | None:
    """Make the engine ``name`` of ``model``, or return None for one that is not yours.

    Called once for each engine when it is first used; the first result wins, before the engines of the package.
    ``options`` is what `tokenparity.yaml` says of the engine but for its ``type``, with ``${VAR}`` expanded.
    """
