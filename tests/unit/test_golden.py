"""Golden files: their exact text, how others read them, when they are written, and what a damaged one says."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import GoldenError
from pytest_tokenparity import golden as goldens
from pytest_tokenparity.golden import Golden, GoldenRequest, Provenance
from pytest_tokenparity.vocabulary import Vocabulary

SESSION = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4."},
    {"role": "user", "content": "And times 3?"},
    {"role": "assistant", "content": "12."},
    {"role": "user", "content": "Minus 5?"},
]
RECORDED = Provenance("transformers 5.22.1", "0.23.3", "aeb1", "87a2", "143b")

SESSION_FILE = """\
{
  "format": 1,
  "model": "qwen3-0.6b",
  "case": "session",
  "file": "chat.tokenparity.yaml",
  "recorded": {
    "engine": "transformers 5.22.1",
    "tokenizers": "0.23.3",
    "tokenizer_sha256": "aeb1",
    "template_sha256": "87a2",
    "request_sha256": "143b"
  },
  "stop": {"<|im_end|>": 151645},
  "requests": [
    {"messages": 2, "tokens": 25, "keep": 0, "append": [
      [[151644, 8948, 198], "<|im_start|>system\\n"],
      [[2610, 525, 50537, 13, 151645, 198], "You are terse.<|im_end|>\\n"],
      [[151644, 872, 198], "<|im_start|>user\\n"],
      [[3838, 374, 220, 17, 488, 220, 17, 30, 151645, 198], "What is 2 + 2?<|im_end|>\\n"],
      [[151644, 77091, 198], "<|im_start|>assistant\\n"]
    ]},
    {"messages": 4, "tokens": 42, "keep": 25, "append": [
      [[19, 13, 151645, 198], "4.<|im_end|>\\n"],
      [[151644, 872, 198], "<|im_start|>user\\n"],
      [[3036, 3039, 220, 18, 30, 151645, 198], "And times 3?<|im_end|>\\n"],
      [[151644, 77091, 198], "<|im_start|>assistant\\n"]
    ]},
    {"messages": 6, "tokens": 59, "keep": 42, "append": [
      [[16, 17, 13, 151645, 198], "12.<|im_end|>\\n"],
      [[151644, 872, 198], "<|im_start|>user\\n"],
      [[74458, 220, 20, 30, 151645, 198], "Minus 5?<|im_end|>\\n"],
      [[151644, 77091, 198], "<|im_start|>assistant\\n"]
    ]}
  ]
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paths in messages are relative to the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def qwen(qwen_tokenizer: Any) -> Vocabulary:
    return Vocabulary.of(qwen_tokenizer)


def letters() -> Vocabulary:
    """A token for each byte."""
    return Vocabulary(lambda token: bytes([token]) if token < 256 else None, lambda text: list(text.encode()))


def golden(*prompts: str | Sequence[int] | GoldenRequest, **changes: Any) -> Golden:
    """A golden whose prompts are letters, IDs, or requests as they are."""
    requests = [
        prompt
        if isinstance(prompt, GoldenRequest)
        else GoldenRequest(number, list(prompt.encode() if isinstance(prompt, str) else prompt))
        for number, prompt in enumerate(prompts, 1)
    ]
    made = Golden("tiny", "plain", "chat.tokenparity.yaml", RECORDED, tuple(requests))
    return dataclasses.replace(made, **changes)


def rows_of(text: str) -> list[str]:
    """The lines of a golden's text that hold its requests."""
    return text[text.index('  "requests": [\n') :].splitlines()[1:-2]


def session_golden(tokenizer: Any) -> Golden:
    requests = []
    for count in (2, 4, 6):
        ids = tokenizer.apply_chat_template(SESSION[:count], add_generation_prompt=True, return_dict=False)
        requests.append(GoldenRequest(count, ids))
    return Golden("qwen3-0.6b", "session", "chat.tokenparity.yaml", RECORDED, tuple(requests), {"<|im_end|>": 151645})


# The text


def test_a_sessions_file_is_one_line_for_each_line_of_the_prompt(qwen_tokenizer: Any, qwen: Vocabulary) -> None:
    assert goldens.dump(session_golden(qwen_tokenizer), qwen) == SESSION_FILE


def test_what_was_dumped_is_read_again(folder: Path, qwen_tokenizer: Any, qwen: Vocabulary) -> None:
    expected = session_golden(qwen_tokenizer)
    (folder / "session.json").write_text(SESSION_FILE, encoding="utf-8")
    read = goldens.read(folder / "session.json")
    assert expected == read
    assert read is not None
    assert read.texts[0] == ([151644, 8948, 198], "<|im_start|>system\n")


def test_a_program_reads_it_with_json_alone(qwen_tokenizer: Any) -> None:
    prompts: list[list[int]] = []
    for request in json.loads(SESSION_FILE)["requests"]:
        kept = prompts[-1][: request["keep"]] if prompts else []
        prompts.append(kept + [token for ids, _ in request["append"] for token in ids])
    assert [request.ids for request in session_golden(qwen_tokenizer).requests] == prompts


def test_a_golden_without_stop_strings_has_no_stop() -> None:
    assert '"stop"' not in goldens.dump(golden("a"), letters())


@pytest.mark.parametrize(
    ("prompts", "rows"),
    [
        (
            ["ab\nc"],
            [
                '    {"messages": 1, "tokens": 4, "keep": 0, "append": [',
                '      [[97, 98, 10], "ab\\n"],',
                '      [[99], "c"]',
                "    ]}",
            ],
        ),
        ([""], ['    {"messages": 1, "tokens": 0, "keep": 0, "append": []}']),
        (
            ["ab", "abc"],
            [
                '    {"messages": 1, "tokens": 2, "keep": 0, "append": [',
                '      [[97, 98], "ab"]',
                "    ]},",
                '    {"messages": 2, "tokens": 3, "keep": 2, "append": [',
                '      [[99], "c"]',
                "    ]}",
            ],
        ),
        (
            ["abc", "ab", "ab"],
            [
                '    {"messages": 1, "tokens": 3, "keep": 0, "append": [',
                '      [[97, 98, 99], "abc"]',
                "    ]},",
                '    {"messages": 2, "tokens": 2, "keep": 2, "append": []},',
                '    {"messages": 3, "tokens": 2, "keep": 2, "append": []}',
            ],
        ),
        (
            ["a", GoldenRequest(3, refused='no "parts"\n你'), "a"],
            [
                '    {"messages": 1, "tokens": 1, "keep": 0, "append": [',
                '      [[97], "a"]',
                "    ]},",
                '    {"messages": 3, "refused": "no \\"parts\\"\\n你"},',
                '    {"messages": 3, "tokens": 1, "keep": 0, "append": [',
                '      [[97], "a"]',
                "    ]}",
            ],
        ),
        (
            [GoldenRequest(None, [97])],
            ['    {"messages": null, "tokens": 1, "keep": 0, "append": [', '      [[97], "a"]', "    ]}"],
        ),
        (
            [[195, 169, 10, 256]],
            [
                '    {"messages": 1, "tokens": 4, "keep": 0, "append": [',
                '      [[195, 169, 10], "é\\n"],',
                '      [[256], "<256>"]',
                "    ]}",
            ],
        ),
    ],
    ids=["two lines", "no token", "a session", "a session that shrinks", "refused", "a test's own", "an unknown token"],
)
def test_the_rows_of_a_golden(folder: Path, prompts: list[Any], rows: list[str]) -> None:
    text = goldens.dump(golden(*prompts), letters())
    assert rows == rows_of(text)
    (folder / "plain.json").write_text(text, encoding="utf-8")
    assert golden(*prompts) == goldens.read(folder / "plain.json")


def test_a_character_that_straddles_two_requests_is_shown_broken_and_its_ids_are_whole(folder: Path) -> None:
    made = golden(b"a" + b"\xc3", b"a" + b"\xc3\xa9")
    text = goldens.dump(made, letters())
    assert '      [[169], "\ufffd"]' in text.splitlines()
    (folder / "plain.json").write_text(text, encoding="utf-8")
    assert made == goldens.read(folder / "plain.json")


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028", "\x85", "\x1b", "\u00ad", "\ue000"]
)
def test_what_a_diff_would_not_show_is_an_escape(hidden: str) -> None:
    text = goldens.dump(golden(f"a{hidden}b"), letters())
    assert f'"a\\u{ord(hidden):04x}b"' in text
    assert hidden not in text


def test_text_that_people_can_read_is_no_escape() -> None:
    assert '"שלום 你好 é 👩"' in goldens.dump(golden("שלום 你好 é 👩"), letters())


# Writing


def test_write_says_new_then_unchanged_then_changed(folder: Path) -> None:
    path = folder / "golden" / "tiny" / "chat" / "plain.json"
    assert goldens.write(path, golden("a"), letters()) == "new"
    assert goldens.dump(golden("a"), letters()).encode() == path.read_bytes()
    os.utime(path, (1, 1))
    assert goldens.write(path, golden("a"), letters()) == "unchanged"
    assert path.stat().st_mtime == 1
    assert goldens.write(path, golden("b"), letters()) == "changed"
    assert golden("b") == goldens.read(path)
    assert [file.name for file in path.parent.iterdir()] == ["plain.json"]


def test_another_version_of_the_reference_that_renders_the_same_changes_nothing(folder: Path) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a"), letters())
    before = path.read_bytes()
    newer = dataclasses.replace(RECORDED, engine="transformers 6.0.0", tokenizers="1.0.0")
    assert goldens.write(path, golden("a", recorded=newer), letters()) == "unchanged"
    assert before == path.read_bytes()


def test_a_refusal_in_other_words_changes_nothing(folder: Path) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a", GoldenRequest(2, refused="not today")), letters())
    before = path.read_bytes()
    assert goldens.write(path, golden("a", GoldenRequest(2, refused="not on this day")), letters()) == "unchanged"
    assert before == path.read_bytes()
    assert goldens.write(path, golden("b", GoldenRequest(2, refused="not on this day")), letters()) == "changed"
    assert goldens.write(path, golden("b", [98]), letters()) == "changed"


@pytest.mark.parametrize("change", ["tokenizer_sha256", "template_sha256", "request_sha256"])
def test_another_hash_is_a_change(folder: Path, change: str) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a"), letters())
    changed = golden("a", recorded=dataclasses.replace(RECORDED, **{change: "ffff"}))
    assert goldens.write(path, changed, letters()) == "changed"
    assert changed == goldens.read(path)


def test_another_stop_string_is_a_change(folder: Path) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a"), letters())
    assert goldens.write(path, golden("a", stop={"\n": 10}), letters()) == "changed"


def test_a_text_that_was_edited_beside_the_right_ids_is_mended(folder: Path) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a"), letters())
    expected = path.read_bytes()
    path.write_bytes(expected.replace(b'"a"]', b'"z"]'))
    assert goldens.write(path, golden("a"), letters()) == "changed"
    assert expected == path.read_bytes()


@pytest.mark.parametrize("there", [b"", b"<<<<<<< HEAD\n", b"{}", b'{"format": 2}'])
def test_a_file_that_is_no_golden_is_mended_by_recording(folder: Path, there: bytes) -> None:
    path = folder / "plain.json"
    path.write_bytes(there)
    assert goldens.write(path, golden("a"), letters()) == "changed"
    assert golden("a") == goldens.read(path)


def test_a_write_that_fails_leaves_the_old_golden_and_no_other_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a"), letters())
    before = path.read_bytes()

    def fail(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(GoldenError) as raised:
        goldens.write(path, golden("b"), letters())
    assert str(raised.value) == "plain.json: cannot be written: No space left on device"
    assert before == path.read_bytes()
    assert [file.name for file in folder.iterdir()] == ["plain.json"]


def test_a_golden_has_the_mode_of_any_new_file(folder: Path) -> None:
    (folder / "other").write_text("", encoding="utf-8")
    goldens.write(folder / "plain.json", golden("a"), letters())
    assert (folder / "other").stat().st_mode == (folder / "plain.json").stat().st_mode


def test_a_read_only_golden_is_not_replaced(folder: Path) -> None:
    path = folder / "plain.json"
    goldens.write(path, golden("a"), letters())
    path.chmod(0o444)
    assert goldens.write(path, golden("a"), letters()) == "unchanged"
    with pytest.raises(GoldenError) as raised:
        goldens.write(path, golden("b"), letters())
    assert str(raised.value) == "plain.json: cannot be written: the file is read-only"
    assert golden("a") == goldens.read(path)
    path.chmod(0o644)


def test_a_folder_in_a_goldens_place_can_be_neither_read_nor_written(folder: Path) -> None:
    path = folder / "plain.json"
    path.mkdir()
    with pytest.raises(GoldenError, match=r"^plain\.json: cannot be read: "):
        goldens.read(path)
    with pytest.raises(GoldenError, match=r"^plain\.json: cannot be written: "):
        goldens.write(path, golden("a"), letters())
    assert [file.name for file in folder.iterdir()] == ["plain.json"]


def test_a_file_where_a_folder_is_needed_is_named(folder: Path) -> None:
    (folder / "golden").write_text("", encoding="utf-8")
    with pytest.raises(GoldenError, match=r"^golden/tiny/plain\.json: cannot be written: "):
        goldens.write(folder / "golden" / "tiny" / "plain.json", golden("a"), letters())


# Reading


def test_no_file_is_no_golden(folder: Path) -> None:
    assert goldens.read(folder / "plain.json") is None


def edited(old: str, new: str) -> str:
    assert old in SESSION_FILE
    return SESSION_FILE.replace(old, new, 1)


LINE_20 = '      [[151644, 77091, 198], "<|im_start|>assistant\\n"]\n    ]},\n    {"messages": 4'
MERGE = LINE_20.replace("      [[", "<<<<<<< HEAD\n      [[", 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            edited('"format": 1', '"format": 2'),
            "format 2; this version reads format 1: update the plugin, or record again",
        ),
        (
            edited('"format": 1', '"format": "1"'),
            "format '1'; this version reads format 1: update the plugin, or record again",
        ),
        ("{}", "no golden: it has no `format`"),
        ("[]", "no golden: it has no `format`"),
        ("null", "no golden: it has no `format`"),
        ('{"format": 1}', "damaged: the golden has no `recorded`"),
        (edited('"engine": "transformers 5.22.1"', '"engine": 5'), "damaged: `engine` of `recorded` is the number 5"),
        (edited('"tokenizers": "0.23.3"', '"tokenizers": []'), "damaged: `recorded.tokenizers` is an empty list"),
        (edited('  "case": "session",\n', ""), "damaged: the golden has no `case`"),
        (edited('"model": "qwen3-0.6b"', '"model": null'), "damaged: `model` of the golden is nothing (null)"),
        (edited("151645}", '"151645"}'), "damaged: `stop` must hold strings with their token IDs"),
        (edited('{"<|im_end|>": 151645}', "[151645]"), "damaged: `stop` must hold strings with their token IDs"),
        (edited('"tokens": 42', '"tokens": 41'), "damaged: request 2 says 41 tokens and holds 42"),
        (edited('"keep": 25', '"keep": 26'), "damaged: request 2 keeps 26 tokens of a request that has 25"),
        (edited('"keep": 25', '"keep": 24'), "damaged: request 2 says 42 tokens and holds 41"),
        (edited('"keep": 25', '"keep": -1'), "damaged: request 2 keeps -1 tokens of a request that has 25"),
        (edited('"keep": 0', '"keep": 1'), "damaged: request 1 keeps 1 tokens of a request that has 0"),
        (edited('"keep": 0', '"keep": false'), "damaged: `keep` of request 1 is false"),
        (edited('"tokens": 25, ', ""), "damaged: request 1 has no `tokens`"),
        (
            edited('"messages": 2', '"messages": "two"'),
            "damaged: request 1 has the string 'two' as its number of messages",
        ),
        (edited("[[19, 13,", "[[19.0, 13,"), "damaged: request 2 holds something that is no token ID"),
        (edited("[[19, 13,", "[[true, 13,"), "damaged: request 2 holds something that is no token ID"),
        (edited("[[19, 13,", "[[-19, 13,"), "damaged: request 2 holds something that is no token ID"),
        (edited('"4.<|im_end|>\\n"', "4"), "damaged: request 2 has a row that is not [[IDs], text]"),
        (edited(', "4.<|im_end|>\\n"', ""), "damaged: request 2 has a row that is not [[IDs], text]"),
        ('{"format": 1, "recorded": {}, "requests": [7]}', "damaged: request 1 is the number 7"),
        (
            '{"format": 1, "recorded": {}, "requests": [{"messages": 1, "refused": null}]}',
            "damaged: `refused` of request 1 is nothing (null)",
        ),
    ],
)
def test_what_a_damaged_golden_says(folder: Path, content: str, message: str) -> None:
    (folder / "session.json").write_text(content, encoding="utf-8")
    with pytest.raises(GoldenError) as raised:
        goldens.read(folder / "session.json")
    assert f"session.json: {message}" == str(raised.value)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        (SESSION_FILE[: SESSION_FILE.index('"requests"')], 14),
        (edited(LINE_20, MERGE), 20),
        ("<<<<<<< HEAD\n" + SESSION_FILE, 1),
        (SESSION_FILE + SESSION_FILE, 36),
    ],
    ids=["empty", "cut short", "a merge conflict inside", "a merge conflict at the top", "twice"],
)
def test_what_is_not_json_is_named_with_its_line(folder: Path, content: str, line: int) -> None:
    (folder / "session.json").write_text(content, encoding="utf-8")
    with pytest.raises(GoldenError) as raised:
        goldens.read(folder / "session.json")
    assert str(raised.value).startswith(f"session.json:{line}: not JSON (")
    assert str(raised.value).endswith("): cut short, or a merge conflict?")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\xff", "no golden: not UTF-8"),
        (b'{"format": 1, "model": "\xe4"}', "no golden: not UTF-8"),
        (b"[" * 200_000, "no golden: nested without end"),
    ],
    ids=["bytes", "latin-1", "nested"],
)
def test_what_is_no_text_of_ours_is_said_so(folder: Path, content: bytes, message: str) -> None:
    (folder / "session.json").write_bytes(content)
    with pytest.raises(GoldenError) as raised:
        goldens.read(folder / "session.json")
    assert f"session.json: {message}" == str(raised.value)


@pytest.mark.parametrize(
    ("number", "ids", "text", "line"),
    [
        (0, [151644, 8948, 198], "<|im_start|>system\n", 16),
        (5, [19, 13, 151645, 198], "4.<|im_end|>\n", 23),
        (9, [1], "another", None),
    ],
)
def test_the_line_of_a_row_can_be_found(folder: Path, number: int, ids: list[int], text: str, line: int | None) -> None:
    (folder / "session.json").write_text(SESSION_FILE, encoding="utf-8")
    assert line == goldens.line_of(folder / "session.json", ids, text)


# A folder of goldens


def test_listed_gives_every_golden_and_passes_over_what_is_none(folder: Path) -> None:
    root = folder / "golden"
    first = goldens.golden_path(root, "tiny", "chat", "plain")
    second = goldens.golden_path(root, "tiny", "api/chat", "plain")
    for path in (first, second):
        goldens.write(path, golden("a"), letters())
    (root / "tiny" / "notes.json").write_text("{}", encoding="utf-8")
    (root / "tiny" / "broken.json").write_text("{", encoding="utf-8")
    assert [
        (second, "tiny", "plain", "chat.tokenparity.yaml"),
        (first, "tiny", "plain", "chat.tokenparity.yaml"),
    ] == list(goldens.listed(root))


def test_removing_the_last_golden_of_a_folder_removes_the_folder(folder: Path) -> None:
    root = folder / "golden"
    paths = [goldens.golden_path(root, "tiny", place, "plain") for place in ("chat", "api/chat")]
    for path in paths:
        goldens.write(path, golden("a"), letters())
    goldens.remove(paths[1], root)
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == [
        "tiny",
        "tiny/chat",
        "tiny/chat/plain.json",
    ]
    goldens.remove(paths[0], root)
    assert root.is_dir()
    assert list(root.iterdir()) == []
