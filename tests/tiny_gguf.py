"""A GGUF of one tiny layer that carries a real vocabulary and chat template: all that llama-server needs to tokenize.

Needs numpy and gguf. How token types are chosen follows llama.cpp's own converter (`convert_hf_to_gguf.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

EMBEDDING = 4  # floats a token: the server answers nonsense, and tokenizes as the real model does
CONTEXT = 40960


@dataclass(frozen=True)
class Family:
    """What of a model's files the GGUF must be told in other words."""

    architecture: str
    sentencepiece: bool
    pre_tokenizer: str


FAMILIES = {
    "qwen3": Family("qwen3", False, "qwen2"),
    "gemma3": Family("gemma3", True, "default"),
    "llama3.1": Family("llama", False, "llama-bpe"),
    "deepseek-v3": Family("llama", False, "deepseek-v3"),  # its own architecture tokenizes alike and needs more tensors
}


def write_tiny_gguf(
    family: str, tokenizer_dir: Path, path: Path, template: str | None = None, *, add_eos: bool = False
) -> None:
    """Write the GGUF; ``template`` takes the place of the chat template that Transformers finds in the folder.

    ``add_eos``: the server appends EOS to what it tokenizes, as where tokenizer_config.json says ``add_eos_token: true``.
    """
    kind = FAMILIES[family]
    tokenizer = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = _Vocabulary(tokenizer, kind.sentencepiece)
    writer = gguf.GGUFWriter(str(path), kind.architecture)
    _write_shape(writer, len(vocabulary.tokens))
    writer.add_tokenizer_model("llama" if kind.sentencepiece else "gpt2")
    writer.add_tokenizer_pre(kind.pre_tokenizer)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    if kind.sentencepiece:
        writer.add_token_scores(vocabulary.scores)
        writer.add_add_space_prefix(False)
    # IDs, whether BOS is added, and merges: read by the class that the converter reads them with
    special = gguf.SpecialVocab(tokenizer_dir, load_merges=not kind.sentencepiece)
    if family == "qwen3":
        special.special_token_ids["bos"] = vocabulary.added[
            "<|endoftext|>"
        ]  # Qwen's own GGUFs have it from config.json
    special.chat_template = template or chat_template(tokenizer_dir)
    if add_eos:
        special.add_special_token["eos"] = True
    special.add_to_gguf(writer, quiet=True)
    _write_weights(writer, len(vocabulary.tokens), kind.architecture)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def chat_template(tokenizer_dir: Path) -> str:
    """The template that Transformers takes: the file of its own before the key in the settings."""
    file = tokenizer_dir / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    settings = json.loads((tokenizer_dir / "tokenizer_config.json").read_text(encoding="utf-8"))
    return str(settings["chat_template"])


class _Vocabulary:
    def __init__(self, tokenizer: Any, sentencepiece: bool) -> None:
        pieces: dict[str, int] = tokenizer["model"]["vocab"]
        self.added: dict[str, int] = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
        size = max(*pieces.values(), *self.added.values()) + 1
        self.tokens = [f"[PAD{token}]" for token in range(size)]
        self.types = [int(gguf.TokenType.UNUSED)] * size
        self.scores = [-10000.0] * size
        for piece, token in pieces.items():
            byte = sentencepiece and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
            self.tokens[token] = piece
            self.types[token] = int(gguf.TokenType.BYTE if byte else gguf.TokenType.NORMAL)
            self.scores[token] = 0.0 if byte else -float(token)  # a BPE sentencepiece model's scores fall with the ID
        for entry in tokenizer["added_tokens"]:
            token, text = entry["id"], entry["content"]
            if text == "<unk>":
                type_ = gguf.TokenType.UNKNOWN
            elif entry["special"] or _looks_special(text):
                type_ = gguf.TokenType.CONTROL
            else:
                type_ = gguf.TokenType.USER_DEFINED
                text = text.replace("\u2581", " ")
            self.tokens[token], self.types[token], self.scores[token] = text, int(type_), -1000.0


def _looks_special(text: str) -> bool:
    return (
        text in ("<pad>", "<mask>", "<2mass>", "[@BOS@]")
        or (text.startswith("<|") and text.endswith("|>"))
        or (text.startswith("<\uff5c") and text.endswith("\uff5c>"))
        or (text.startswith("<unused") and text.endswith(">"))
    )


def _write_shape(writer: gguf.GGUFWriter, size: int) -> None:
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(1)
    writer.add_feed_forward_length(EMBEDDING)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(EMBEDDING)
    writer.add_value_length(EMBEDDING)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(size)


def _write_weights(writer: gguf.GGUFWriter, size: int, architecture: str) -> None:
    random = np.random.default_rng(0)

    def matrix(name: str, rows: int) -> None:
        values = random.standard_normal((rows, EMBEDDING), dtype=np.float32) * 0.02
        writer.add_tensor(f"{name}.weight", values.astype(np.float16))

    matrix("token_embd", size)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        matrix(f"blk.0.{name}", EMBEDDING)
    norms = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]
    if architecture in ("qwen3", "gemma3"):
        norms += ["blk.0.attn_q_norm", "blk.0.attn_k_norm"]
    if architecture == "gemma3":
        norms += ["blk.0.post_attention_norm", "blk.0.post_ffw_norm"]
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(EMBEDDING, dtype=np.float32))
