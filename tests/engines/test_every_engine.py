"""The cases of the project's own suite through every engine, in one run and one table.

No cell is without its reason: what is not equal is explained whole, refused, or was not seen.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pytest_tokenparity.yaml12 import load

from ..harness import Project
from ..real_models import QWEN3, ROOT, fetch
from ..recorded.suite import FILES

CONFTEST = """
from tests.engines.every_engine import engine


def pytest_tokenparity_engine(config, model, name, options):
    return engine(name, LLAMA_URL)
"""
ENGINES: dict[str, dict[str, Any]] = {
    "transformers": {},
    "tokenizers": {},
    "llama-server": {"url": "LLAMA_URL"},
    "posted": {"type": "client-completion", "url": "LLAMA_URL"},
    "vllm": {"url": "http://recorded"},
    "vllm-tokenize": {"url": "http://recorded"},
    "sglang": {"url": "http://recorded"},
    "tgi": {"url": "http://fake"},
    "ollama": {"url": "http://fake", "model": "qwen3"},
    "shimmy": {"family": "ChatML"},
}

TABLE = """\
qwen3-0.6b                                     transformers  tokenizers  llama-server  posted  vllm  vllm-tokenize  sglang  tgi  ollama  shimmy
tests/parity/chat::plain                       =             =           =             =       =     =              =       =    ~       5!
tests/parity/chat::posted-as-text              =             =           =             =       =     =              =       =    ~       5!
tests/parity/chat::thinking-off                =             =           =             =       =     =              =       3!   ~       6,5!
tests/parity/chat::tools                       =             =           =             =       =     =              2!      .    4!      6,5!
tests/parity/chat::tools-with-return           =             =           1!            =       1!    1!             1,2!    .    1,4!    6,5!
tests/parity/chat::session                     =             =           =             =       =     =              =       =    ~       5!
tests/parity/chat::session-thinking-off        =             =           =             =       =     =              =       3!   ~       6,5!
tests/parity/chat::session-thinking-off-tail   =             =           =             =       =     =              =       3!   ~       6,5!
tests/parity/chat::session-tools-reordered     =             =           =             =       =     =              2!      .    4!      6,5!
tests/parity/requests::agent                   =             =           =             =       R!    R!             2!      .    4!      6,5,15!
tests/parity/requests::content-parts           r             r           7!            r       7!    7!             10!     12!  r       7,5!
tests/parity/requests::null-content            r             r           8!            r       r     r              r       r    r       r
tests/parity/requests::no-generation-prompt    =             =           9!            =       =     =              =       13!  9!      13,16,5!
tests/parity/requests::continued               =             =           =             =       =     =              11!     14!  ~       14,16,5!
tests/parity/text::scripts                     =             =           =             =       =     =              =       =    ~       5!
tests/parity/text::white-space                 =             =           =             =       =     =              =       =    ~       5!
tests/parity/text::combining-accent            =             =           17!           17!     =     =              =       =    ~       5!
tests/parity/text::special-token-in-user-text  =             =           =             =       =     =              =       =    ~       5!
tests/parity/text::template-words              =             =           =             =       =     =              =       =    ~       5!

  =   equal to the golden
  r   refused alike
  ~   partly checked: what was seen agrees, or differs as `expect` says
  R   refuses what the reference renders
  !   fails
  .   not in this run
  1   tool-field-dropped: return
  2   tool-field-added: tool.defer_loading=null, at the end
  3   thinking-default: not set
  4   tool-keys-reordered: schema
  5   special-as-text
  6   template-family: ChatML
  7   content-parts-joined: newline
  8   content-null: ''
  9   last-turn-prefilled: after an empty think block
  10  content-parts-joined: space
  11  last-turn-prefilled: after the generation prompt
  12  content-parts-joined: nothing
  13  generation-prompt-added
  14  continue-ignored
  15  last-turn-replaced: messages[1]
  16  last-turn-replaced: messages[0]
  17  unicode-normalised: none
"""


def cases(file: str) -> dict[str, Any]:
    """A case file of the repository, for every engine but TGI where a case has tools."""
    document: dict[str, Any] = load(ROOT / "tests" / "parity" / f"{file}.tokenparity.yaml").value
    for case in document["cases"].values():
        case.pop("expect", None)
        case.pop("engines", None)
        tools = "tools" in case or any("tools" in it for it in case.get("requests", ()) if isinstance(it, dict))
        if tools or isinstance(case.get("requests"), str):
            case["engines"] = [name for name in ENGINES if name != "tgi"]
    return document


def test_the_suite_through_every_engine_in_one_table(tmp_path: Path, qwen_url: str) -> None:
    engines = json.loads(json.dumps(ENGINES).replace("LLAMA_URL", qwen_url))
    models = {
        "qwen3-0.6b": {"tokenizer": str(QWEN3), "engines": engines},
        "gemma-3": {"tokenizer": str(fetch("gemma3")), "engines": {"transformers": {}}},
    }
    project = Project(
        tmp_path,
        {
            "tokenparity.yaml": json.dumps({"golden_dir": "golden", "models": models}),
            "conftest.py": CONFTEST.replace("LLAMA_URL", repr(qwen_url)),
        },
    )
    for file in FILES:
        project.write(f"tests/parity/{file}.tokenparity.yaml", json.dumps(cases(file), ensure_ascii=False))
    shutil.copytree(ROOT / "golden", tmp_path / "golden")
    shutil.copytree(ROOT / "tests" / "parity" / "recorded", tmp_path / "tests" / "parity" / "recorded")
    output = project.pytest("-m", "qwen3_0_6b", "--tokenparity-table", COLUMNS="180", PYTHONPATH=str(ROOT)).output
    assert TABLE in output
