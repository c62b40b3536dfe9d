"""Findings as text: the table of tokens, the headlines, the advice, and how long all of it may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity.cases import DocumentedBreak, Expectation
from pytest_tokenparity.causes.explanation import DeclaredCause
from pytest_tokenparity.check import Outcome
from pytest_tokenparity.findings import (
    BreakGone,
    CountDiffers,
    Difference,
    ExpectationGone,
    Finding,
    GoldenMissing,
    Place,
    PrefixBroken,
    Problem,
    RefusalDiffers,
    RequestsChanged,
    StopChanged,
    StopNotOneToken,
    TextDiffers,
)
from pytest_tokenparity.golden import Golden, GoldenRequest, Provenance
from pytest_tokenparity.history import Edited, History
from pytest_tokenparity.report import Subject, command, failure, headline
from pytest_tokenparity.token_table import quoted, table
from pytest_tokenparity.vocabulary import Vocabulary

LRM = "\u200e"


def of(*pieces: str | bytes) -> Vocabulary:
    """A vocabulary of these pieces: the token is the number of the piece."""
    known = {token: piece if isinstance(piece, bytes) else piece.encode() for token, piece in enumerate(pieces)}
    return Vocabulary(known.get, lambda text: [])


# How many columns a terminal gives a character, written down here so that the report's own measure is measured too.
TWO_COLUMNS = set("你好世界한글\uff46\uff55、👩🎉")
NO_COLUMN = {"\u0301", "\u0303", "\u20dd", "\u05b8", "\u05c1", LRM}


def columns(text: str) -> int:
    return sum(2 if character in TWO_COLUMNS else 0 if character in NO_COLUMN else 1 for character in text)


def starts(row: str, cells: Sequence[str]) -> list[int]:
    """In which column of a terminal each of these cells starts."""
    found: list[int] = []
    at = 0
    for cell in cells:
        index = row.index(cell, at)
        found.append(columns(row[:index]))
        at = index + len(cell)
    return found


def test_the_table_shows_both_sides_around_the_first_difference() -> None:
    vocabulary = of(*"abcdefghijk")
    rows = table(("golden", "rendered"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 10, 6, 7, 8, 9], 5, vocabulary)
    assert rows == [
        "            2     3     4     5     6     7     8",
        "  golden    'c'   'd'   'e'   'f'   'g'   'h'   'i'",
        "  rendered  'c'   'd'   'e'   'k'   'g'   'h'   'i'",
        "                              5 != 10",
    ]


@pytest.mark.parametrize(
    ("golden", "rendered", "position", "rows"),
    [
        (
            [0, 1],
            [2, 1],
            0,
            [
                "            0     1",
                "  golden    'a'   'b'",
                "  rendered  'c'   'b'",
                "            0 != 2",
            ],
        ),
        (
            [0, 1],
            [0, 1, 2, 3],
            2,
            [
                "            0     1     2       3",
                "  golden    'a'   'b'   (end)",
                "  rendered  'a'   'b'   'c'     'd'",
                "                        end != 2",
            ],
        ),
        (
            [0, 1, 2],
            [0, 1],
            2,
            [
                "            0     1     2",
                "  golden    'a'   'b'   'c'",
                "  rendered  'a'   'b'   (end)",
                "                        2 != end",
            ],
        ),
        (
            [],
            [1],
            0,
            [
                "            0",
                "  golden    (end)",
                "  rendered  'b'",
                "            end != 1",
            ],
        ),
        (
            [0, 77],
            [0, 1],
            1,
            [
                "            0     1",
                "  golden    'a'   <no token 77>",
                "  rendered  'a'   'b'",
                "                  77 != 1",
            ],
        ),
        (
            [0] * 1_000_003 + [1, 2],
            [0] * 1_000_003 + [3, 2],
            1_000_003,
            [
                "            1000000   1000001   1000002   1000003   1000004",
                "  golden    'a'       'a'       'a'       'b'       'c'",
                "  rendered  'a'       'a'       'a'       'd'       'c'",
                "                                          1 != 3",
            ],
        ),
    ],
    ids=["the first token", "golden ends", "rendered ends", "golden is empty", "no such token", "a huge place"],
)
def test_the_table_at_the_ends_of_a_prompt(
    golden: list[int], rendered: list[int], position: int, rows: list[str]
) -> None:
    shown = table(("golden", "rendered"), golden, rendered, position, of("a", "b", "c", "d"))
    assert [row.rstrip() for row in rows] == [row for row in shown if row.strip()]


def test_without_a_vocabulary_the_table_shows_the_ids() -> None:
    assert table(("golden", "rendered"), [151644, 2], [151644, 3], 1, None) == [
        "            0        1",
        "  golden    151644   2",
        "  rendered  151644   3",
        "                     2 != 3",
    ]


@pytest.mark.parametrize(
    ("golden", "other", "cells", "other_cell"),
    [
        (["你好", "世", "界界"], "a", ["'你好'", "'世'", "'界界'"], "'a'"),
        (["\uff46\uff55", "、", "x"], "xyz", ["'\uff46\uff55'", "'、'", "'x'"], "'xyz'"),
        (["한글", "글", "x"], "xyz", ["'한글'", "'글'", "'x'"], "'xyz'"),
        (["👩", "🎉🎉", "x"], "a", ["'👩'", "'🎉🎉'", "'x'"], "'a'"),
        (["𝄞", "é", "x"], "ab", ["'𝄞'", "'é'", "'x'"], "'ab'"),
        (["של", "ום", "x"], "abc", [f"'של'{LRM}", f"'ום'{LRM}", "'x'"], "'abc'"),
        (["مر", "حبا", "x"], "abc", [f"'مر'{LRM}", f"'حبا'{LRM}", "'x'"], "'abc'"),
        (["٣٤", "abc", "x"], "٣", [f"'٣٤'{LRM}", "'abc'", "'x'"], f"'٣'{LRM}"),
        (["ש\u05b8\u05c1", "x", "y"], "abc", [f"'ש\u05b8\u05c1'{LRM}", "'x'", "'y'"], "'abc'"),
        (["e\u0301e\u0301", "n\u0303", "x"], "abc", ["'e\u0301e\u0301'", "'n\u0303'", "'x'"], "'abc'"),
        (["\u0301", "\u0301a", "x"], "b", ["'\\u0301'", "'\\u0301a'", "'x'"], "'b'"),
        (["a\u20dd", "x", "y"], "abc", ["'a\u20dd'", "'x'", "'y'"], "'abc'"),
        ([b" \xf0\x9f\x91", b"\xa9", "x"], b"\xaa", [r"' \xf0\x9f\x91'", r"'\xa9'", "'x'"], r"'\xaa'"),
        ([b"\xe4\xbd", b"\xa0\n", "x"], b"\xa1", [r"'\xe4\xbd'", r"'\xa0\n'", "'x'"], r"'\xa1'"),
        (["\x1b[31m", "\x00\x07", "x"], "\r\n\t", [r"'\x1b[31m'", r"'\x00\x07'", "'x'"], r"'\r\n\t'"),
        (["\x7f\x85", "\xa0\u3000", "x"], "\u2028", [r"'\x7f\x85'", r"'\xa0\u3000'", "'x'"], r"'\u2028'"),
        (["\u202ea", "\u2066\u200f", "x"], "b", [r"'\u202ea'", r"'\u2066\u200f'", "'x'"], "'b'"),
        (["\u200d", "\ufe0f\ufeff", "x"], "b", [r"'\u200d'", r"'\ufe0f\ufeff'", "'x'"], "'b'"),
        (["\U000e0041", "\ue000", "x"], "b", [r"'\U000e0041'", r"'\ue000'", "'x'"], "'b'"),
        (["it's", '"', "'\""], "\\", ['"it\'s"', "'\"'", "'\\'\"'"], r"'\\'"),
    ],
    ids=[
        *("CJK", "fullwidth", "Hangul", "emoji", "wide in bytes only", "Hebrew", "Arabic", "Arabic digits", "points"),
        *("combining marks", "marks that start a token", "an enclosing mark", "half a character", "half and newline"),
        *("control characters", "white space", "bidi controls", "joiners", "tags and private use", "quotes"),
    ],
)
def test_columns_stand_below_each_other_in_a_terminal(
    golden: list[str | bytes], other: str | bytes, cells: list[str], other_cell: str
) -> None:
    head, left, right, marks = table(("golden", "rendered"), [0, 1, 2], [0, 3, 2], 1, of(*golden, other))
    expected = starts(head, ["0", "1", "2"])
    assert expected == starts(left, cells)
    assert expected == starts(right, [cells[0], other_cell, cells[2]])
    assert expected[1:2] == starts(marks, ["1 != 3"])


def test_a_korean_syllable_in_parts_is_two_columns_wide() -> None:
    # U+1112 U+1161 U+11AB: a terminal draws one syllable of two columns.
    assert table(("golden", "rendered"), [0, 1, 3], [0, 2, 3], 1, of("\u1112\u1161\u11ab", "a", "b", "c")) == [
        "            0      1     2",
        "  golden    '\u1112\u1161\u11ab'   'a'   'c'",
        "  rendered  '\u1112\u1161\u11ab'   'b'   'c'",
        "                   1 != 2",
    ]


@pytest.mark.parametrize(
    ("piece", "cell"),
    [
        ("a" * 100, "'aaaaaaaaaaa…aaaa'"),
        ("abcdefghijklmnopqrstuvwxyz", "'abcdefghijk…wxyz'"),
        ("abcdefghijklmnop", "'abcdefghijklmnop'"),
        ("界" * 100, "'界界界界界…界界'"),
        ("👩" * 30, "'👩👩👩👩👩…👩👩'"),
        ("e\u0301" * 16, f"'{'e' + chr(0x301)}" + ("e\u0301" * 15) + "'"),
    ],
    ids=["letters", "an alphabet", "as long as fits", "CJK", "emoji", "marks take no room"],
)
def test_a_very_long_token_is_cut_in_its_middle(piece: str, cell: str) -> None:
    row = table(("golden", "rendered"), [0], [1], 0, of(piece, "x"))[1]
    assert f"  golden    {cell}" == row
    assert columns(cell) <= 18


def test_two_tokens_that_look_alike_are_told_apart_where_they_differ() -> None:
    vocabulary = of("caf", "\u00e9", "e\u0301", "\u00e9")
    assert table(("golden", "rendered"), [3, 0, 1], [3, 0, 2], 2, vocabulary) == [
        "            0     1       2",
        "  golden    'é'   'caf'   '\\xe9'",
        "  rendered  'é'   'caf'   'e\\u0301'",
        "                          1 != 2",
    ]


@pytest.mark.parametrize(
    "piece",
    ["a" * 100, "界" * 100, "\u202e" * 100, "👩" * 30, "x y " * 30, "'\"" * 50, "e\u0301" * 60],
    ids=["letters", "CJK", "escapes", "emoji", "words", "quotes", "marks"],
)
@pytest.mark.parametrize("position", [0, 2, 5, 7, 8])
def test_the_table_keeps_to_80_columns_and_to_the_differing_token(piece: str, position: int) -> None:
    ids = [0] * 8
    other = [*ids[:position], 1, *ids[position + 1 :]]
    head, left, right, marks = table(("request 1", "request 2"), ids, other, position, of(piece, "DIFFERS"))
    assert max(columns(row) for row in (head, left, right, marks)) <= 80
    (start,) = starts(right, ["'DIFFERS'"])
    (number,) = starts(head, [f" {position}"])
    assert [start, start] == [number + 1, len(marks) - len(marks.lstrip())]


def test_ids_too_large_for_any_tokenizer_are_shown_as_they_are(qwen_tokenizer: Any) -> None:
    assert table(("golden", "rendered"), [198, 2**40], [198, 525], 1, Vocabulary.of(qwen_tokenizer)) == [
        "            0      1",
        "  golden    '\\n'   <no token 1099511627776>",
        "  rendered  '\\n'   ' are'",
        "                   1099511627776 != 525",
    ]


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("plain", "'plain'"),
        ("", "''"),
        ("it's", '"it\'s"'),
        ("both ' and \"", "'both \\' and \"'"),
        ("back\\slash", "'back\\\\slash'"),
        (b"\xf0\x9f", r"'\xf0\x9f'"),
        (b"a\xc3\xa9\xc3", r"'aé\xc3'"),
        ("\ufffd", "'\ufffd'"),
    ],
)
def test_a_token_is_quoted_so_that_it_can_be_read(piece: str | bytes, shown: str) -> None:
    assert shown == quoted(piece)


# Headlines

ONE = Place(1, 1, 2)
SECOND = Place(2, 3, 4)
BREAK = PrefixBroken(Place(1, 3, 2), SECOND, [1, 2, 3, 4], [1, 2, 9, 9, 9], 2)


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (
            Difference("llama-server", ONE, [1, 2, 3], [1, 2], 2),
            "llama-server leaves the golden at token 2 (3 tokens recorded, 2 rendered)",
        ),
        (
            Difference("llama-server", SECOND, [1], [2], 0),
            "request 2 (4 messages): llama-server leaves the golden at token 0 (1 token recorded, 1 rendered)",
        ),
        (CountDiffers("counter", ONE, 25, 26), "counter counts 26 tokens, the golden has 25"),
        (
            CountDiffers("counter", Place(1, 2, 1), 25, 26),
            "request 1 (1 message): counter counts 26 tokens, the golden has 25",
        ),
        (TextDiffers("ollama", ONE, "abc", "abd", 2), "ollama leaves the reference's text at character 2"),
        (
            RefusalDiffers("llama-server", ONE, "no parts", True),
            "llama-server refuses a request that the reference renders: no parts",
        ),
        (
            RefusalDiffers("llama-server", SECOND, "no parts", False),
            "request 2 (4 messages): llama-server renders a request that the reference refuses: no parts",
        ),
        (
            BREAK,
            "request 2 (4 messages) leaves request 1 (2 messages) at token 2 of 4: 2 tokens reused, 3 computed again",
        ),
        (
            BreakGone(DocumentedBreak(25, "tools move")),
            "no prefix break at token 25 any more: remove it from `prefix` (tools move)",
        ),
        (
            ExpectationGone(
                "llama-server", Expectation((DeclaredCause("unknown"),), "once", "chat.tokenparity.yaml:9")
            ),
            "llama-server no longer differs from the golden: remove the expectation at chat.tokenparity.yaml:9",
        ),
        (
            ExpectationGone(
                "llama-server", Expectation((DeclaredCause("unknown"),), "once", "chat.tokenparity.yaml:9"), "tiny"
            ),
            (
                "llama-server does not differ from the golden of tiny: remove the expectation at "
                "chat.tokenparity.yaml:9, or say of which model it holds (MODEL/llama-server)"
            ),
        ),
        (RequestsChanged(1, 2), "the golden holds 1 request, the case now makes 2 requests: record it again"),
        (GoldenMissing("golden/m/chat/plain.json"), "no golden yet: golden/m/chat/plain.json is not there"),
        (StopNotOneToken("</s>", [5, 6, 7]), "the stop string '</s>' is 3 tokens of the model, not one: [5, 6, 7]"),
        (StopChanged("</s>", None, 5), "the stop string '</s>' (token 5) is not in the golden: record it again"),
        (StopChanged("</s>", 4, 5), "the stop string '</s>' is token 5, the golden recorded 4"),
        (Problem("llama-server cannot be reached"), "llama-server cannot be reached"),
    ],
)
def test_a_finding_says_itself_in_one_line(finding: Finding, line: str) -> None:
    assert line == finding.headline
    assert line == headline(Outcome((finding,)))
    assert line == failure(Outcome((finding,)), SUBJECT, None, 0)[0].text


SUBJECT = Subject(
    engine="llama-server",
    at="chat.tokenparity.yaml:13: plain[m-llama-server]",
    select="chat.tokenparity.yaml::plain[m-llama-server]",
    update_flag="--update-golden",
)
RECORDED = Provenance("transformers 5.22.1", "0.23.3", "aeb1", "87a2", "143b")
GOLDEN = Golden("m", "plain", "chat.tokenparity.yaml", RECORDED, (GoldenRequest(2, [0, 1]),))
DIFFERENCE = Difference("llama-server", ONE, [0, 1], [0, 2], 1)
REFUSAL = RefusalDiffers("llama-server", ONE, "no parts", True)


def text(
    *findings: Finding,
    history: History | None = None,
    golden: Golden | None = GOLDEN,
    subject: Subject = SUBJECT,
    verbosity: int = 0,
    vocabulary: Vocabulary | None = None,
) -> list[str]:
    outcome = Outcome(findings, golden=golden, golden_path=Path("golden/m/chat/plain.json"), history=history)
    shown = failure(outcome, subject, vocabulary or of("a", "b\n", "c\n"), verbosity)
    return [line.text for line in shown]


def labelled(lines: list[str], *labels: str) -> list[str]:
    """The lines under these labels, with the lines that go on under them."""
    found: list[str] = []
    inside = False
    below_the_table = max((at for at, line in enumerate(lines) if not line), default=0)
    for line in lines[below_the_table:]:
        if line[:2] == "  " and line[2:10].strip():
            inside = line[2:10].strip() in labels
        if inside and line.strip():
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("history", "more"),
    [
        (History(), ""),
        (History(changed=("the request was edited",)), "; since it was recorded, the request was edited"),
        (
            History(
                changed=("the request was edited", "the template changed (a -> b)", "the tokenizer changed (c -> d)")
            ),
            "; since it was recorded, the request was edited, the template changed and the tokenizer changed",
        ),
        (History(edited=Edited(20, "a", "b")), "; the golden was edited by hand"),
    ],
    ids=["nothing", "the request", "everything", "by hand"],
)
def test_the_headline_of_a_difference_tells_what_changed_since(history: History, more: str) -> None:
    expected = f"llama-server leaves the golden at token 1 (2 tokens recorded, 2 rendered){more}"
    assert expected == text(DIFFERENCE, history=history)[0]


@pytest.mark.parametrize(
    ("history", "golden", "lines"),
    [
        (
            History(reference_agrees=True),
            RECORDED,
            [
                "  golden  recorded by transformers 5.22.1, tokenizers 0.23.3; tokenizer, template and request are unchanged since",
                "          the reference still renders the golden",
            ],
        ),
        (
            History(reference_agrees=False),
            RECORDED,
            [
                "  golden  recorded by transformers 5.22.1, tokenizers 0.23.3; tokenizer, template and request are unchanged since",
                "          the reference does not give the golden any more either",
            ],
        ),
        (
            History(changed=("the request was edited",)),
            RECORDED,
            ["  golden  recorded by transformers 5.22.1, tokenizers 0.23.3; since then the request was edited"],
        ),
        (
            History(unknown="no tokenizer"),
            RECORDED,
            [
                "  golden  recorded by transformers 5.22.1, tokenizers 0.23.3",
                "          what changed since is not known: no tokenizer",
            ],
        ),
        (
            History(),
            Provenance("test_prompt.py::test_it", None, "aeb1"),
            ["  golden  recorded by test_prompt.py::test_it; tokenizer is unchanged since"],
        ),
        (
            History(edited=Edited(20, "a\n", "z" * 50)),
            RECORDED,
            [
                "  golden  recorded by transformers 5.22.1, tokenizers 0.23.3; tokenizer, template and request are unchanged since",
                "  edited  golden/m/chat/plain.json:20: the IDs are 'a\\n'",
                f"                                       the text says '{'z' * 39}…'",
            ],
        ),
        (None, RECORDED, []),
    ],
    ids=["the same", "reference left too", "changed", "unknown", "a test's own", "edited", "not looked up"],
)
def test_the_golden_lines_say_what_became_of_it(history: History | None, golden: Provenance, lines: list[str]) -> None:
    shown = text(DIFFERENCE, history=history, golden=dataclasses.replace(GOLDEN, recorded=golden))
    assert lines == labelled(shown, "golden", "edited")


RECORD = "pytest --update-golden 'chat.tokenparity.yaml::plain[m-llama-server]'"
PIN = "          expect: {llama-server: {differs: [unknown], reason: ...}}"
BROKEN = "  fix     render the earlier turns as they were rendered before; if it is known, in the case:"
FAR = PrefixBroken(Place(1, 2, 2), Place(2, 2, 4), [1] * 20, [2] * 20, 0)


@pytest.mark.parametrize(
    ("finding", "history", "changes", "lines"),
    [
        (GoldenMissing("x.json"), None, {}, [f"  record  {RECORD}"]),
        (RequestsChanged(1, 2), None, {}, [f"  record  {RECORD}"]),
        (StopChanged("x", 1, 2), None, {}, [f"  record  {RECORD}"]),
        (REFUSAL, History(), {}, ["  fix     send a request that both render; or pin it in the case:", PIN]),
        (REFUSAL, History(), {"is_reference": True}, [f"  record  {RECORD}  (if the new prompt is right)"]),
        (
            DIFFERENCE,
            History(reference_agrees=True),
            {},
            [
                "  fix     make llama-server render what the reference renders; or pin it in the case:",
                PIN,
                "  more    pytest -vv 'chat.tokenparity.yaml::plain[m-llama-server]'",
            ],
        ),
        (
            DIFFERENCE,
            History(reference_agrees=False),
            {},
            [
                f"  record  {RECORD}  (if the new prompt is right)",
                "  more    pytest -vv 'chat.tokenparity.yaml::plain[m-llama-server]'",
            ],
        ),
        (
            DIFFERENCE,
            History(changed=("the request was edited",), reference_agrees=True),
            {},
            [
                f"  record  {RECORD}  (if the new prompt is right)",
                "  more    pytest -vv 'chat.tokenparity.yaml::plain[m-llama-server]'",
            ],
        ),
        (
            DIFFERENCE,
            History(edited=Edited(1, "a", "b")),
            {},
            [
                f"  record  {RECORD}  (writes what the reference renders)",
                "  more    pytest -vv 'chat.tokenparity.yaml::plain[m-llama-server]'",
            ],
        ),
        (
            DIFFERENCE,
            History(),
            {"is_case": False, "update_flag": "--tokenparity-update", "select": "test_it.py::test_prompt"},
            [
                "  record  pytest --tokenparity-update test_it.py::test_prompt  (if the new prompt is right)",
                "  more    pytest -vv test_it.py::test_prompt",
            ],
        ),
        (
            BREAK,
            None,
            {},
            [
                BROKEN,
                "          prefix: {tail: 2}",
                "  more    pytest -vv 'chat.tokenparity.yaml::plain[m-llama-server]'",
            ],
        ),
        (
            FAR,
            None,
            {},
            [
                BROKEN,
                "          prefix: {breaks: [{at: 0, reason: ...}]}",
                "  more    pytest -vv 'chat.tokenparity.yaml::plain[m-llama-server]'",
            ],
        ),
        (Problem("no server"), None, {}, []),
        (ExpectationGone("llama-server", Expectation((DeclaredCause("unknown"),), "once", "chat:9")), None, {}, []),
    ],
)
def test_the_last_lines_say_what_to_do(
    finding: Finding, history: History | None, changes: dict[str, Any], lines: list[str]
) -> None:
    shown = text(finding, history=history, subject=dataclasses.replace(SUBJECT, **changes))
    assert lines == labelled(shown, "record", "fix", "more")
    assert shown[-1] == "  at      chat.tokenparity.yaml:13: plain[m-llama-server]"


def test_the_tail_to_allow_is_that_of_the_longest_break() -> None:
    longer = PrefixBroken(SECOND, Place(3, 3, 6), [1] * 30, [1] * 25 + [2] * 9, 25)
    assert labelled(text(BREAK, longer), "fix") == [BROKEN, "          prefix: {tail: 5}"]
    both = "          prefix: {breaks: [{at: 2, reason: ...}, {at: 0, reason: ...}]}"
    assert [BROKEN, both] == labelled(text(BREAK, FAR, BREAK), "fix")


def test_the_advice_on_a_new_break_keeps_those_that_are_documented() -> None:
    known = dataclasses.replace(BREAK, documented=(7,))
    kept = "          prefix: {breaks: [{at: 7, reason: ...}, {at: 2, reason: ...}]}"
    assert [BROKEN, kept] == labelled(text(known), "fix")


def test_a_command_is_ready_to_paste() -> None:
    spaced = dataclasses.replace(SUBJECT, select="my tests/it's.tokenparity.yaml::plain[m-e]")
    assert command(spaced, "-vv") == """pytest -vv 'my tests/it'"'"'s.tokenparity.yaml::plain[m-e]'"""


# Length


def test_other_findings_are_one_line_each() -> None:
    shown = text(DIFFERENCE, *[Problem(f"problem {n}") for n in range(4)])
    assert [f"  also    problem {n}" for n in range(4)] == labelled(shown, "also")


def test_of_many_other_findings_the_first_three_are_named() -> None:
    shown = text(DIFFERENCE, *[Problem(f"problem {n}") for n in range(9)])
    assert [
        *(f"  also    problem {n}" for n in range(3)),
        "  also    6 more (-vv shows all)",
    ] == labelled(shown, "also")


@pytest.mark.parametrize("first", [DIFFERENCE, BREAK, FAR, TextDiffers("ollama", ONE, "a" * 500, "b" * 500, 0)])
@pytest.mark.parametrize(
    "history",
    [
        History(reference_agrees=True),
        History(unknown="no tokenizer", reference_agrees=False),
        History(changed=("the request was edited",), edited=Edited(1, "a", "b")),
    ],
)
def test_a_failure_has_at_most_25_lines(first: Finding, history: History) -> None:
    lines = text(first, *[BREAK] * 50, history=history)
    assert len(lines) <= 25
    assert not any("\n" in line for line in lines)


def test_vv_shows_every_finding_whole() -> None:
    shown = text(DIFFERENCE, BREAK, *[Problem(f"problem {n}") for n in range(9)], verbosity=2)
    assert {DIFFERENCE.headline, BREAK.headline, *(f"problem {n}" for n in range(9))} <= set(shown)
    assert labelled(shown, "also", "more") == []


def test_vv_shows_both_prompts_line_by_line_with_their_ids() -> None:
    vocabulary = of("one\n", "two\n", "2\n", "three")
    found = Difference("llama-server", ONE, [0, 1, 3], [0, 2, 3], 1)
    shown = text(found, history=History(), verbosity=2, vocabulary=vocabulary)
    assert shown == [
        "llama-server leaves the golden at token 1 (3 tokens recorded, 3 rendered)",
        "",
        "            0         1         2",
        "  golden    'one\\n'   'two\\n'   'three'",
        "  rendered  'one\\n'   '2\\n'     'three'",
        "                      1 != 2",
        "",
        "  --- golden",
        "  +++ rendered",
        "      'one\\n'  [0]",
        "  -   'two\\n'  [1]",
        "  +   '2\\n'  [2]",
        "      'three'  [3]",
        "",
        "  golden  recorded by transformers 5.22.1, tokenizers 0.23.3; tokenizer, template and request are unchanged since",
        "  fix     make llama-server render what the reference renders; or pin it in the case:",
        "          expect: {llama-server: {differs: [unknown], reason: ...}}",
        "  at      chat.tokenparity.yaml:13: plain[m-llama-server]",
    ]


def test_vv_shows_every_line_of_a_long_prompt() -> None:
    vocabulary = of("line\n", "other\n")
    found = Difference("llama-server", ONE, [0] * 500, [0] * 499 + [1], 499)
    shown = text(found, verbosity=2, vocabulary=vocabulary)
    assert shown.count("      'line\\n'  [0]") == 499
    assert [line for line in shown if line.startswith("  -   ")] == ["  -   'line\\n'  [0]"]
    assert [line for line in shown if line.startswith("  +   ")] == ["  +   'other\\n'  [1]"]


def test_a_text_that_differs_is_shown_around_the_place() -> None:
    found = TextDiffers("ollama", ONE, "You are terse.\nWhat is 2 + 2?", "You are terse. What is 2 + 2?", 14)
    assert text(found)[:6] == [
        "ollama leaves the reference's text at character 14",
        "",
        "  reference  'u are terse.\\nWhat is 2 + 2?'",
        "  rendered   'u are terse. What is 2 + 2?'",
        "                          ^",
        "",
    ]


def test_no_line_of_a_failure_holds_a_control_character() -> None:
    vocabulary = of("a", "\x1b[31m\n", "\u202e")
    for verbosity in (0, 2):
        shown = text(DIFFERENCE, history=History(), verbosity=verbosity, vocabulary=vocabulary)
        assert not {"\x1b", "\u202e", "\n"} & set("".join(shown))
