"""The tiny GGUFs: a real llama-server reads from each what the family's real files say, token for token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from .real_models import SOURCES, Servers, check_sha256, fetch
from .tiny_gguf import FAMILIES, chat_template

COMBINING = "cafe\u0301 e\u0301\u0302 a\u030a"
BLOCKS = "\u2581\u2581 lower blocks \u2581 beside spaces"  # what stands for a space in Gemma 3's vocabulary
STRINGS = [
    BLOCKS,
    "Hello, world!",
    "I'VE told you: we're here, you'll see, they'd go, it's OK",
    "camelCaseWords snake_case_words kebab-case-words",
    "internationalization antidisestablishmentarianism",
    "0 12 123 1234 12345 1234567890",
    "3.14159 -2e10 1,000,000 0xDEADBEEF 50%",
    "2026-01-02T03:04:05+00:00",
    "\u00b2\u00b3\u00bc \u2163 \u0661\u0662\u0663\u0664 \u0967\u0968\u0969\u096a",
    " leading and trailing ",
    "  two   three    four     five",
    "\t\ttabs\tbetween\t words",
    "\n",
    "one\ntwo\n\nthree\n\n\nfour\n\n\n\nfive",
    "windows\r\nlines\r\n\r\nend\r",
    "spaces then newline   \n   and back \n \n ",
    "no\u00a0break thin\u2009space ideographic\u3000space zero\u200bwidth",
    "def f(x: int) -> str:\n    return f'{x!r}'  # comment\n",
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": [1, 2, 3]}}',
    '<html><body class="a">&amp;</body></html>',
    "!!! ??? ... --- === ### $$$ %%% ^^^ &&& *** ((( )))",
    "a/b\\c|d~e`f@g#h$i%j^k&l*m",
    "https://example.org/path?q=1&r=%20#frag",
    "caf\u00e9 na\u00efve \u00fcber Stra\u00dfe \u0141\u00f3d\u017a",
    COMBINING,
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u6211\u60f3\u5728apple\u5de5\u4f5c1314151\u5929\uff5e",
    "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\u3002\u30ab\u30bf\u30ab\u30ca\u3068\u6f22\u5b57",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 123",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u03ba\u03cc\u03c3\u03bc\u03b5",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060c \u0643\u064a\u0641\u061f",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f\u17a2\u17b6\u1785",
    "\U0001f600 \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 \u2764\ufe0f",
    "\U0001d54f \U00020000 \ud7ff \ufffd",  # mathematical letters, a rare ideograph
    "\u2211\u222b\u221a\u2260\u2264 \u20ac\u00a3\u00a5 \u2190\u2192 \u2014 \u2026 \u201cquoted\u201d",
    "\x01\x02\x7f control\x1b[31m",
    "lower\u2581blocks <0x0A> [PAD1] <unk>",
    "<|not_a_token|> <think> </think> [INST] <s> <|",
]
KNOWN = {
    "qwen3": {COMBINING},  # its tokenizer.json composes characters (NFC), llama.cpp does not
    "gemma3": {BLOCKS},  # its runs of blocks are tokens; llama.cpp's converter writes them as runs of spaces
}
BOS = {"qwen3": [], "gemma3": [2], "llama3.1": [128000], "deepseek-v3": [0]}


class Served:
    """One family: its real tokenizer, and a real llama-server with its tiny GGUF."""

    def __init__(self, family: str, url: str) -> None:
        self.family = family
        self.folder = fetch(family)
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.client = httpx.Client(base_url=url)

    def expected(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def ids(self, text: str, add_special: bool = False) -> list[int]:
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return list(self.client.post("/tokenize", json=body).raise_for_status().json()["tokens"])


@pytest.fixture(scope="module", params=FAMILIES)
def served(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Served]:
    served = Served(request.param, servers.url(request.param))
    yield served
    served.client.close()


def test_text_has_the_ids_of_the_real_tokenizer_but_for_what_is_known(served: Served) -> None:
    differing = {text for text in STRINGS if served.expected(text) != served.ids(text)}
    assert KNOWN.get(served.family, set()) == differing


def test_every_added_token_is_that_token_amid_text(served: Served) -> None:
    added = {token: entry.content for token, entry in served.tokenizer.get_added_tokens_decoder().items()}
    named = {token: text for token, text in added.items() if text.strip("\u2581\n\t ")}  # the others are runs of spaces
    text = " a ".join(named.values())
    ids = served.ids(text)
    assert served.expected(text) == ids
    assert set(named) <= set(ids)


def test_bos_is_added_where_the_familys_ggufs_add_it(served: Served) -> None:
    assert [*BOS[served.family], *served.expected("Hi")] == served.ids("Hi", add_special=True)


def test_the_server_and_transformers_have_the_same_template(served: Served) -> None:
    template = chat_template(served.folder)
    assert template == AutoTokenizer.from_pretrained(str(served.folder)).chat_template
    # llama.cpp, as Jinja, ignores one newline at the end
    assert template.removesuffix("\n") == served.client.get("/props").json()["chat_template"]


def test_every_family_that_can_be_served_can_be_brought() -> None:
    assert set(SOURCES) == set(FAMILIES) == set(BOS)


@pytest.mark.parametrize(("content", "wrong"), [(b"{ }", "has the SHA-256 .*, not "), (None, "is missing")])
def test_a_file_that_is_not_the_pinned_one_is_told(tmp_path: Path, content: bytes | None, wrong: str) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(RuntimeError, match=f"tokenizer.json {wrong}.*: delete the folder"):
        check_sha256(tmp_path, {"tokenizer.json": hashlib.sha256(b"{}").hexdigest()})
