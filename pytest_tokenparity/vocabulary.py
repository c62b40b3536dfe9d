"""What a token ID stands for, in bytes: tokens end inside characters, so text alone cannot say it."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import EngineError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


class Vocabulary:
    """The pieces of one tokenizer.

    ``piece(id)`` is the token's bytes, None for an ID that the tokenizer does not have. ``encode(text)`` gives the IDs of
    a text with special tokens parsed and none added.
    """

    def __init__(self, piece: Callable[[int], bytes | None], encode: Callable[[str], list[int]]) -> None:
        self._piece = piece
        self._known: dict[int, bytes | None] = {}
        self.encode = encode

    @classmethod
    def of(cls, tokenizer: Any) -> Vocabulary:
        """The vocabulary of a Transformers tokenizer."""

        def encode(text: str) -> list[int]:
            return list(tokenizer(text, add_special_tokens=False)["input_ids"])

        def decode(token: int) -> str:
            return str(tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False))

        backend = getattr(tokenizer, "backend_tokenizer", None)
        return cls(_reader(backend, decode) if backend else lambda token: _decoded(decode, token), encode)

    @classmethod
    def of_file(cls, file: Path) -> Vocabulary:
        """The vocabulary of a ``tokenizer.json``, without Transformers. EngineError if it cannot be read."""
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises plain Exception
            raise EngineError(f"{file} cannot be read as a tokenizer: {error}") from None

        return cls.of_backend(tokenizer)

    @classmethod
    def of_backend(cls, tokenizer: Any) -> Vocabulary:
        """The vocabulary of a ``tokenizers.Tokenizer``."""

        def encode(text: str) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=False).ids)

        return cls(_reader(tokenizer, lambda token: str(tokenizer.decode([token], skip_special_tokens=False))), encode)

    def piece(self, token: int) -> bytes | None:
        if token not in self._known:
            self._known[token] = self._piece(token)
        return self._known[token]

    def text(self, ids: Sequence[int]) -> str:
        """The text of some tokens, for people: a broken character is U+FFFD, an unknown ID is ``<ID>``."""
        return b"".join(self._shown(token) for token in ids).decode("utf-8", "replace")

    def lines(self, ids: Sequence[int]) -> list[tuple[list[int], str]]:
        """The tokens by lines of the prompt, each with its text: a line ends after the token that holds its newline, and
        never inside a character."""
        lines: list[tuple[list[int], str]] = []
        line: list[int] = []
        newline = False
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in ids:
            piece = self._shown(token)
            line.append(token)
            decoder.decode(piece)
            newline = newline or b"\n" in piece
            if newline and not decoder.getstate()[0]:
                lines.append((line, self.text(line)))
                line, newline = [], False
                decoder.reset()
        if line:
            lines.append((line, self.text(line)))
        return lines

    def _shown(self, token: int) -> bytes:
        piece = self.piece(token)
        return f"<{token}>".encode() if piece is None else piece


def _reader(backend: Any, decode: Callable[[int], str]) -> Callable[[int], bytes | None]:
    """The bytes of each token of a ``tokenizers.Tokenizer``; ``decode`` serves where its kind is unknown."""
    to_bytes = _reader_of(backend.decoder)
    spaces = to_bytes is _from_sentencepiece  # Gemma's runs of spaces are added tokens, written as sentencepiece has it
    added = {
        token: entry.content if entry.special or not spaces else entry.content.replace("\u2581", " ")
        for token, entry in backend.get_added_tokens_decoder().items()
    }

    def piece(token: int) -> bytes | None:
        if token in added:
            return str(added[token]).encode("utf-8")
        try:
            written = backend.id_to_token(token)
        except OverflowError:  # larger than any vocabulary
            return None
        if written is None:
            return None
        return to_bytes(written) if to_bytes else _decoded(decode, token)

    return piece


def _decoded(decode: Callable[[int], str], token: int) -> bytes | None:
    try:
        return decode(token).encode("utf-8", "replace")
    except (IndexError, KeyError, OverflowError, ValueError):
        return None


def _reader_of(decoder: Any) -> Callable[[str], bytes] | None:
    """How a token's written form becomes bytes, read off the tokenizer's decoder; None when it is of an unknown kind."""
    if decoder is None:
        return None
    kinds = _kinds(json.loads(decoder.__getstate__()))
    if "ByteLevel" in kinds:
        return _from_byte_level
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        return _from_sentencepiece
    return None


def _kinds(state: Any) -> set[str]:
    kinds = {state.get("type", "")}
    for inner in state.get("decoders", []):
        kinds |= _kinds(inner)
    return kinds


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: the printable bytes stand for themselves, the others for the characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _from_byte_level(written: str) -> bytes:
    out = bytearray()
    for character in written:
        byte = _ALPHABET.get(character)
        if byte is None:
            out += character.encode("utf-8", "replace")
        else:
            out.append(byte)
    return bytes(out)


def _from_sentencepiece(written: str) -> bytes:
    match = _BYTE_TOKEN.match(written)
    return bytes([int(match[1], 16)]) if match else written.replace("\u2581", " ").encode("utf-8", "replace")
