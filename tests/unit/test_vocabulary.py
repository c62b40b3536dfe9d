"""What tokens stand for, in bytes: on real tokenizers of both families, and the lines of a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tokenparity.vocabulary import Vocabulary

TEXTS = [
    "plain words\nin two lines",
    "שלום עולם, مرحبا, 你好, नमस्ते",
    "👩\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 \U0001d518\U0001d52b\U0001d526",
    "\x00\x07\x1b[31m\x7f\x85\u202e\ufeff\ufffd",
    "  two,\ttab,\r\n\n\n three \u00a0 \u3000",
    "<0x41> <unk> Ġ Ċ",
]


@pytest.fixture(scope="module")
def qwen(qwen_tokenizer: Any) -> Vocabulary:
    return Vocabulary.of(qwen_tokenizer)


@pytest.fixture(scope="module")
def gemma(gemma_tokenizer: Any) -> Vocabulary:
    return Vocabulary.of(gemma_tokenizer)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("family", ["qwen", "gemma"])
def test_the_pieces_of_a_text_are_its_bytes(family: str, text: str, request: pytest.FixtureRequest) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(family)
    pieces = [vocabulary.piece(token) for token in vocabulary.encode(text)]
    assert text.encode() == b"".join(piece or b"<none>" for piece in pieces)


@pytest.mark.parametrize(
    ("token", "piece"),
    [
        (198, b"\n"),
        (382, b".\n\n"),
        (525, b" are"),
        (124756, " של".encode()),
        (61804, b" \xf0\x9f\x91"),
        (102, b"\xa9"),
        (151644, b"<|im_start|>"),
        (151667, b"<think>"),
        (151936, None),
        (2**31, None),
    ],
)
def test_qwen3s_token_is_these_bytes(qwen: Vocabulary, token: int, piece: bytes | None) -> None:
    assert piece == qwen.piece(token)


@pytest.mark.parametrize(
    ("token", "piece"),
    [
        (2, b"<bos>"),
        (105, b"<start_of_turn>"),
        (107, b"\n"),
        (108, b"\n\n"),
        (236743, b" "),
        (1559, " é".encode()),
        (238, b"\x00"),
        (255968, b"\t"),
        (138, b"  "),
        (300000, None),
    ],
)
def test_gemma_3s_token_is_these_bytes(gemma: Vocabulary, token: int, piece: bytes | None) -> None:
    assert piece == gemma.piece(token)


@pytest.mark.parametrize("token", [2**32, 2**64, 10**30, -1])
def test_a_number_that_no_tokenizer_can_hold_is_no_token(qwen: Vocabulary, token: int) -> None:
    assert qwen.piece(token) is None


def test_encode_parses_special_tokens_and_adds_none(qwen: Vocabulary, gemma: Vocabulary) -> None:
    assert qwen.encode("<|im_start|>user\n") == [151644, 872, 198]
    assert gemma.encode("<bos>user") == [2, 2364]
    assert gemma.encode("user") == [2364]


def test_a_tokenizer_of_another_kind_is_decoded_token_by_token() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordPiece({"[UNK]": 0, "un": 1, "##seen": 2, "word": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.decoder = decoders.WordPiece()
    vocabulary = Vocabulary.of(PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"))
    assert vocabulary.encode("unseen word") == [1, 2, 3]
    assert [vocabulary.piece(token) for token in (1, 3, 99)] == [b"un", b"word", None]


def test_a_tokenizer_without_a_fast_form_is_decoded_too() -> None:
    from transformers import ByT5Tokenizer

    vocabulary = Vocabulary.of(ByT5Tokenizer())
    assert vocabulary.encode("aé") == [100, 198, 172]
    assert vocabulary.piece(100) == b"a"
    assert vocabulary.piece(2**70) is None


# Text and lines, on pieces that are written down here


def of(*pieces: bytes) -> Vocabulary:
    """A vocabulary of these pieces: the token is the number of the piece."""
    return Vocabulary(dict(enumerate(pieces)).get, lambda text: [])


def test_text_shows_half_a_character_and_an_unknown_token() -> None:
    assert of(b"a", b"\xc3", b"\xa9").text([0, 1, 7, 1, 2]) == "a\ufffd<7>é"


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([], []),
        ([b"a"], [([0], "a")]),
        ([b"a", b"\n"], [([0, 1], "a\n")]),
        ([b"a", b"\n", b"b"], [([0, 1], "a\n"), ([2], "b")]),
        ([b".\n\n", b"\n", b"x\ny"], [([0], ".\n\n"), ([1], "\n"), ([2], "x\ny")]),
        ([b"\r", b"\n"], [([0, 1], "\r\n")]),
        ([b"\r", b"b"], [([0, 1], "\rb")]),
        ([b"\xe2\x80\xa8", b"b"], [([0, 1], "\u2028b")]),
        ([b"\n\xe4", b"\xbd", b"\xa0", b"b"], [([0, 1, 2], "\n你"), ([3], "b")]),
        ([b"\xf0\x9f", b"\x91", b"\xa9\n", b"b"], [([0, 1, 2], "👩\n"), ([3], "b")]),
        ([b"\xf0\x9f", b"\n", b"b"], [([0, 1], "\ufffd\n"), ([2], "b")]),
        ([b"\n\xe4", b"b", b"c"], [([0, 1], "\n\ufffdb"), ([2], "c")]),
        ([b"a", b"\xe4"], [([0, 1], "a\ufffd")]),
    ],
)
def test_a_line_ends_after_the_token_with_the_newline_and_never_inside_a_character(
    pieces: list[bytes], lines: list[tuple[list[int], str]]
) -> None:
    assert lines == of(*pieces).lines(range(len(pieces)))


def test_an_unknown_token_stands_in_its_line_as_its_number() -> None:
    assert of(b"a", b"\n").lines([0, 9, 1]) == [([0, 9, 1], "a<9>\n")]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("family", ["qwen", "gemma"])
def test_the_lines_of_a_prompt_hold_each_token_once_and_the_whole_text(
    family: str, text: str, request: pytest.FixtureRequest
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(family)
    ids = vocabulary.encode(text)
    lines = vocabulary.lines(ids)
    assert ids == [token for line, _ in lines for token in line]
    assert text == "".join(shown for _, shown in lines)
