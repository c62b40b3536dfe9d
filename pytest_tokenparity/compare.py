"""Comparison of engines: where two lists of token IDs (or two strings) part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engines.base import TokenRenderer
    from .request import Conversation, Tools


@dataclass(frozen=True)
class TokenDivergence:
    """An engine's IDs leave the reference's at ``position``, counted from 0."""

    reference: str
    engine: str
    position: int
    reference_len: int
    engine_len: int


def first_divergence(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """The first position at which two sequences differ; None if they are equal.

    Works on lists of IDs and on strings. A proper prefix diverges at the shorter length.
    """
    if a == b:
        return None
    for position, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return position
    return min(len(a), len(b)) if len(a) != len(b) else None


def compare_token_renders(
    renderers: Sequence[TokenRenderer], conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any
) -> list[TokenDivergence]:
    """Render one request through every renderer; the first is the reference. An empty list: all IDs are equal.

    ValueError when there is no renderer; what a renderer raises is not caught.
    """
    if not renderers:
        raise ValueError("no renderer to compare: the first one is the reference")
    reference, *others = renderers
    expected = reference.ids(conversation, tools, **template_kwargs)
    divergences = []
    for engine in others:
        ids = engine.ids(conversation, tools, **template_kwargs)
        position = first_divergence(expected, ids)
        if position is not None:
            divergences.append(TokenDivergence(reference.name, engine.name, position, len(expected), len(ids)))
    return divergences
