"""From text to IDs in other ways than the tokenizer's own: special tokens as text, other normalisers, missing tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..engines.tokenizers import TokenizerFiles

_UNICODE = ("NFC", "NFD", "NFKC", "NFKD", "Precompiled")
"""Types of normalisers in tokenizer.json that normalise Unicode; `Precompiled` is sentencepiece's own table."""


@dataclass(frozen=True)
class Encoding:
    """How a text is encoded; the defaults are the tokenizer's own.

    ``special_as_text``: special tokens are not parsed, but for a BOS at the front, which is added (``bos_as_text``: nor is
    that). ``shielded``: the spans of a text, (start, end), inside which they
    are not; ``apart``: each shielded token is encoded by itself. ``normalizer``: ``none`` or a form of Unicode (NFC, NFD, NFKC, NFKD) in place of the
    tokenizer's own.
    ``missing``: added tokens that the vocabulary does not have; ``extra``: tokens of the vocabulary that are parsed as
    special ones are.
    """

    special_as_text: bool = False
    bos_as_text: bool = False
    shielded: Callable[[str], list[tuple[int, int]]] | None = None
    apart: bool = False
    normalizer: str | None = None
    missing: frozenset[str] = frozenset()
    extra: frozenset[str] = frozenset()


class Encoder:
    """Encodes each text once for each encoding, and counts."""

    def __init__(self, files: TokenizerFiles) -> None:
        self.files = files
        self.calls = 0
        self._made: dict[tuple[str, Encoding], list[int]] = {}

    def encode(self, text: str, encoding: Encoding) -> list[int]:
        key = text, encoding
        if key not in self._made:
            self.calls += 1
            self._made[key] = self._encode(text, encoding)
        return list(self._made[key])

    @property
    def _own(self) -> Tokenizer:
        return self.files.tokenizer

    def _encode(self, text: str, encoding: Encoding) -> list[int]:
        tokenizer = self._tokenizer(encoding)
        if encoding.special_as_text:
            bos = self.files.bos
            tokenizer = self.files.plain if tokenizer is self._own else tokenizer
            if bos and text.startswith(bos) and not encoding.bos_as_text:
                return [self.files.added[bos], *_plain(tokenizer, text.removeprefix(bos))]
            return _plain(tokenizer, text)
        if encoding.shielded is None:
            return list(tokenizer.encode(text, add_special_tokens=False).ids)
        return self._shielded(tokenizer, text, encoding.shielded(text), encoding.apart)

    def _tokenizer(self, encoding: Encoding) -> Tokenizer:
        if encoding.normalizer is None and not encoding.missing and not encoding.extra:
            return self._own
        state = self.files.state or self._own.to_str()
        return _variant(state, encoding.normalizer, encoding.missing, encoding.extra)

    def _shielded(self, tokenizer: Tokenizer, text: str, spans: list[tuple[int, int]], apart: bool) -> list[int]:
        """Special tokens are parsed outside the spans alone; what stands between two parsed ones is encoded whole, or
        ``apart``, shielded tokens by themselves."""
        special = self.files.added
        ids: list[int] = []
        start = 0
        for at, content in _occurrences(text, list(special)):
            inside = any(low <= at and at + len(content) <= high for low, high in spans)
            if at < start or (inside and not apart):
                continue
            if at > start:
                ids += _plain(tokenizer, text[start:at])
            ids += _plain(tokenizer, content) if inside else [special[content]]
            start = at + len(content)
        return ids + (_plain(tokenizer, text[start:]) if start < len(text) else [])


def normalises(files: TokenizerFiles, text: str) -> bool:
    """Whether the tokenizer's own normaliser changes this text otherwise than by spaces (sentencepiece writes U+2581)."""
    normalizer = files.tokenizer.normalizer
    if normalizer is None:
        return False
    return str(normalizer.normalize_str(text)).replace("\u2581", " ") != text


def _occurrences(text: str, contents: list[str]) -> list[tuple[int, str]]:
    import re

    if not contents:
        return []
    pattern = "|".join(re.escape(content) for content in sorted(contents, key=len, reverse=True))
    return [(match.start(), match.group()) for match in re.finditer(pattern, text)]


def _plain(tokenizer: Tokenizer, text: str) -> list[int]:
    before = tokenizer.encode_special_tokens
    tokenizer.encode_special_tokens = True
    try:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)
    finally:
        tokenizer.encode_special_tokens = before


def _without_unicode(normalizer: Any) -> Any:
    """A normaliser as tokenizer.json has it, without what normalises Unicode; what writes spaces otherwise stays."""
    if normalizer is None or normalizer["type"] in _UNICODE:
        return None
    if normalizer["type"] == "Sequence":
        kept = [own for it in normalizer["normalizers"] if (own := _without_unicode(it)) is not None]
        return {**normalizer, "normalizers": kept}
    return normalizer


@lru_cache(maxsize=4)
def _variant(state: str, normalizer: str | None, missing: frozenset[str], extra: frozenset[str]) -> Tokenizer:
    from tokenizers import Tokenizer

    form: dict[str, Any] = json.loads(state)
    if normalizer is not None:
        own = _without_unicode(form["normalizer"])
        steps = [*([] if normalizer == "none" else [{"type": normalizer}]), *([] if own is None else [own])]
        form["normalizer"] = {"type": "Sequence", "normalizers": steps} if steps else None
    for number, entry in enumerate(form["added_tokens"]):
        if entry["content"] in missing:
            entry["content"] = f"\U0010fffa{number}"  # renamed, not taken out: those behind it would get other IDs
    made = Tokenizer.from_str(json.dumps(form))
    if extra:
        made.add_special_tokens(sorted(extra))
    return made
