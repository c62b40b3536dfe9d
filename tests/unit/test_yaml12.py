"""The reading of YAML: 1.2's scalars, lines, merges, and everything that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import ConfigError, yaml12
from pytest_tokenparity.yaml12 import Document, did_you_mean, dotted_path, kind, load, loads

FILE = Path("a.yaml")

PAIR_IN_A_COMMENT = "# \\ud83d\\ude00\n"
"""An escaped surrogate pair anywhere in a file: it is then read by PyYAML's own scanner instead of libyaml's."""

both_scanners = pytest.mark.parametrize("head", ["", PAIR_IN_A_COMMENT], ids=["libyaml", "pyyaml"])


def read(text: str) -> Any:
    return loads(text, FILE).value


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text, FILE)
    return str(caught.value)


@both_scanners
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("", None),
        ("0", 0),
        ("-0", 0),
        ("17", 17),
        ("-17", -17),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.0", 1.0),
        ("0.1", 0.1),
        ("-2.50", -2.5),
        ("1e-7", 1e-7),
        ("1E5", 1e5),
        ("1e+5", 1e5),
        ("5e-324", 5e-324),
    ],
)
def test_true_false_null_and_the_numbers_of_json_are_no_strings(head: str, written: str, value: object) -> None:
    found = read(f"{head}a: {written}\n")["a"]
    assert (type(found), found) == (type(value), value)


@both_scanners
@pytest.mark.parametrize(
    "written",
    [
        *("off", "on", "no", "yes", "n", "y", "No", "OFF", "True", "TRUE", "False", "Null", "NULL", "~"),
        *("0x1F", "0o17", "0b1", "017", "1_000", "+1", ".5", "1.", "1e", "1e5.0", ".inf", "-.inf", ".nan", "NaN"),
        *("12:30:45", "190:20:30", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05", "=", "<<", "truth"),
        *("--1", "1-2", "\u0661", "nulls"),
    ],
)
def test_every_other_plain_scalar_is_the_string_that_was_written(head: str, written: str) -> None:
    assert read(f"{head}a: {written}\n") == {"a": written}


@pytest.mark.parametrize("written", ["'true'", '"null"', "'1'", '"1e-7"', "''", "|-\n  1", ">-\n  true"])
def test_a_quoted_or_block_scalar_is_a_string(written: str) -> None:
    assert isinstance(read(f"a: {written}\n")["a"], str)


def test_a_minus_before_zero_point_zero_is_kept() -> None:
    assert repr(read("a: -0.0")["a"]) == "-0.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: 1\na: 1e400\n", "a.yaml:2: the number 1e400 is too large"),
        ("a: -1e400\n", "a.yaml:1: the number -1e400 is too large"),
        (f"a: {'9' * 5000}\n", "a.yaml:1: a number of too many digits"),
    ],
)
def test_a_number_that_cannot_be_held_is_an_error(text: str, message: str) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off: 1\nno: 2\n", {"off": 1, "no": 2}),
        ("2026-01-02: 1\n~: 2\nTrue: 3\n0x1F: 4\n", {"2026-01-02": 1, "~": 2, "True": 3, "0x1F": 4}),
        ("'1': 1\n\"true\": 2\n'null': 3\n'': 4\n", {"1": 1, "true": 2, "null": 3, "": 4}),
        ("'<<': {a: 1}\n", {"<<": {"a": 1}}),
    ],
)
def test_keys_are_strings(text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("1", "the number 1"),
        ("1e-7", "the number 1e-07"),
        ("true", "true"),
        ("null", "nothing (null)"),
        ("[x]", "a collection"),
        ("{x: y}", "a collection"),
    ],
)
def test_a_key_that_is_no_string_is_an_error(key: str, found: str) -> None:
    assert complaint(f"a: 1\n{key}: 2\n") == f"a.yaml:2: a key must be a string, found {found}; put it in quotes"


def test_a_duplicate_key_is_an_error() -> None:
    assert complaint("a:\n  x: 1\n  y: 2\n  x: 1\n") == "a.yaml:4: the key 'x' stands twice (first on line 2)"


def test_a_duplicate_key_in_another_spelling_is_an_error() -> None:
    assert complaint('{x: 1, "\\u0078": 2}\n') == "a.yaml:1: the key 'x' stands twice (first on line 1)"


def test_a_duplicate_key_after_a_merge_names_the_line_of_its_twin() -> None:
    text = "base: &base {k: 1}\na:\n  k: 2\n  <<: *base\n  k: 3\n"
    assert complaint(text) == "a.yaml:5: the key 'k' stands twice (first on line 3)"


def test_the_order_of_keys_is_kept() -> None:
    assert list(read("z: 1\na: 2\nm: 3\nb: 4\n")) == ["z", "a", "m", "b"]


@both_scanners
@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\uD83D\uDE00!"', "\U0001f600!"),
        (r'"\ud83d\ude00\ud83d\ude01"', "\U0001f600\U0001f601"),
        (r'"\U0001F600"', "\U0001f600"),
        (r'"\\ud83d"', r"\ud83d"),
        (r"'\ud83d'", r"\ud83d"),
        ('"\U0001f600"', "\U0001f600"),
        (r'"\u00e9\x41\/\t"', "\u00e9A/\t"),
    ],
)
def test_an_escaped_surrogate_pair_is_one_character(head: str, written: str, value: str) -> None:
    assert read(f"{head}a: {written}\n") == {"a": value}


@pytest.mark.parametrize(
    "written", [r'"\ud83d"', r'"\ude00"', r'"\ude00\ud83d"', r'"\ud83d\ud83d\ude00"', r'"\ud83d x"']
)
def test_a_lone_surrogate_is_an_error(written: str) -> None:
    message = "a.yaml:2: half of a surrogate pair: no text holds it, and no engine can be sent it"
    assert complaint(f"x: 1\na: {written}\n") == message
    assert complaint(f"x: 1\n{written}: 1\n") == message


@pytest.mark.parametrize(
    "written",
    ['"x \x85 \u2028 \u2029 y"', "'x \x85 \u2028 \u2029 y'", "x \x85 \u2028 \u2029 y", "|-\n  x \x85 \u2028 \u2029 y"],
    ids=["double-quoted", "single-quoted", "plain", "block"],
)
def test_what_is_a_line_break_in_yaml_1_1_alone_is_a_character(written: str) -> None:
    """U+0085, U+2028 and U+2029: folded as 1.1 has it, a prompt would silently lose characters that JSON Lines keep."""
    assert read(f"a: {written}\n") == {"a": "x \x85 \u2028 \u2029 y"}


@both_scanners
def test_such_a_character_beside_an_escape_of_private_use_stays_what_it_is(head: str) -> None:
    """What stands for the character while YAML is read may be written in the file too."""
    assert read(head + 'a: "x\u2028\\ue000"\nb: "\ue000\u2028\\ue000"\n') == {
        "a": "x\u2028\ue000",
        "b": "\ue000\u2028\ue000",
    }


@both_scanners
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1,"b":[true,null,"x"]}', {"a": 1, "b": [True, None, "x"]}),
        ('{\n\t"a": 1,\n\t"b": [\n\t\t2\n\t]\n}\n', {"a": 1, "b": [2]}),
        ("a:\tb\n", {"a": "b"}),
        ("a: {b: c:d, e: http://x:1}\n", {"a": {"b": "c:d", "e": "http://x:1"}}),
        ("a: ${URL:-http://localhost:9932}\n", {"a": "${URL:-http://localhost:9932}"}),
    ],
    ids=["compact", "tabs", "tab-after-colon", "colons", "variable"],
)
def test_json_and_what_people_write_is_read(head: str, text: str, value: object) -> None:
    assert read(head + text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\n", {"x": 1, "y": 3}),
        ("b: &b {x: 1, y: 2}\nc: {y: 3, <<: *b}\n", {"x": 1, "y": 3}),
        ("b: &b {x: 1}\nd: &d {x: 2, z: 3}\nc: {<<: [*b, *d]}\n", {"x": 1, "z": 3}),
        ("b: &b {x: 1}\nd: &d {<<: *b, z: 3}\nc: {<<: *d}\n", {"x": 1, "z": 3}),
        ("b: &b {x: {p: 1, q: 2}}\nc: {<<: *b, x: {p: 3}}\n", {"x": {"p": 3}}),
        ("c: {<<: {x: 1}, y: 2}\n", {"x": 1, "y": 2}),
        ("c: {<<: [], y: 2}\n", {"y": 2}),
    ],
)
def test_a_merge_gives_what_the_mapping_has_not(text: str, value: object) -> None:
    assert read(text)["c"] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {<<: 1}\n", "a.yaml:1: `<<` takes a mapping or a list of mappings"),
        ("a:\n  <<: [{}, x]\n", "a.yaml:2: `<<` takes a mapping or a list of mappings"),
        ("a:\n  <<:\n  b: 1\n", "a.yaml:2: `<<` takes a mapping or a list of mappings"),
        ("b: &b {}\na:\n  <<: *b\n  <<: *b\n", "a.yaml:4: the key '<<' stands twice (first on line 3)"),
    ],
)
def test_a_merge_of_anything_else_is_an_error(text: str, message: str) -> None:
    assert complaint(text) == message


def test_an_alias_is_the_value_it_names() -> None:
    assert read("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n", "a: &a {<<: *a}\n", "a: &a [{b: [*a]}]\n"])
def test_an_alias_inside_its_own_value_is_an_error(text: str) -> None:
    assert complaint(text) == "a.yaml:1: an alias inside the value that it names: this would never end"


@pytest.mark.parametrize("use", ["[{0}, {0}, {0}, {0}]", "{{<<: [{0}, {0}, {0}, {0}]}}"], ids=["list", "merge"])
def test_an_alias_bomb_is_an_error(monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    monkeypatch.setattr(yaml12, "MAX_VALUES", 5000)
    layers = "".join(f"a{n}: &a{n} {use.format(f'*a{n - 1}')}\n" for n in range(1, 30))
    found = complaint("a0: &a0 {x: 1}\n" + layers)
    assert found.endswith(": aliases make this file larger than 5,000 values")
    assert found.startswith("a.yaml:")


def test_an_undefined_alias_is_an_error() -> None:
    assert complaint("a: 1\nb: *x\n").startswith("a.yaml:2: not YAML: found undefined alias")


@both_scanners
def test_a_hundred_levels_are_read_and_one_more_is_an_error(head: str) -> None:
    assert read(f"{head}{'[' * 100}1{']' * 100}")
    assert complaint(f"{head}{'[' * 101}1{']' * 101}").endswith(": nested more than 100 deep")


@both_scanners
@pytest.mark.parametrize(
    "text",
    [
        "[\n" * 2000 + "]" * 2000,
        "[\n" * 100_000,
        "{a: " * 2000,
        "- " * 2000 + "x",
        "".join(" " * depth + "a:\n" for depth in range(1500)),
    ],
    ids=["lists", "open", "mappings", "dashes", "block"],
)
def test_endless_nesting_is_an_error_and_no_crash(head: str, text: str) -> None:
    assert complaint(head + text).startswith("a.yaml:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !x 5\n", "a.yaml:1: the tag '!x' is not allowed here"),
        ("b: 1\na: !x [1]\n", "a.yaml:2: the tag '!x' is not allowed here"),
        ("a: !x {b: 1}\n", "a.yaml:1: the tag '!x' is not allowed here"),
        ("a: !!int 5\n", "a.yaml:1: the tag 'tag:yaml.org,2002:int' is not allowed here"),
        ("a: !!timestamp 2026-01-02\n", "a.yaml:1: the tag 'tag:yaml.org,2002:timestamp' is not allowed here"),
        ("a: !!binary aGk=\n", "a.yaml:1: the tag 'tag:yaml.org,2002:binary' is not allowed here"),
        ("a: !!set {b}\n", "a.yaml:1: the tag 'tag:yaml.org,2002:set' is not allowed here"),
        (
            "a: !!python/name:os.system x\n",
            "a.yaml:1: the tag 'tag:yaml.org,2002:python/name:os.system' is not allowed here",
        ),
        ("a: !!float .5\n", "a.yaml:1: '.5' is not a number as JSON writes it"),
    ],
)
def test_a_tag_is_an_error(text: str, message: str) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize("written", ["!!bool yes", "!!bool 1", "!!null x", "!!null 0"])
def test_a_tag_that_does_not_fit_its_text_is_an_error(written: str) -> None:
    """Anything but a complaint changes what was written: `!!bool yes` would be false."""
    assert complaint(f"x: 1\na: {written}\n").startswith("a.yaml:2: ")


@both_scanners
def test_a_second_document_is_an_error(head: str) -> None:
    line = 3 + head.count("\n") - 1
    assert complaint(f"{head}a: 1\n---\nb: 2\n").startswith(f"a.yaml:{line}: not YAML: ")


@pytest.mark.parametrize("text", ["---\na: off\n", "---\na: off\n...\n", "%YAML 1.2\n---\na: off\n"])
def test_one_document_may_be_marked_as_one(text: str) -> None:
    assert read(text) == {"a": "off"}


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null\n"])
def test_an_empty_document_is_null(text: str) -> None:
    assert read(text) is None


@both_scanners
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n  b: 1\n c: 2\n", 3),
        ("a: [1, 2\nb: 1\n", 2),
        ("a:\n\tb: 1\n", 2),
        ("a: 1\nb: @x\n", 2),
        ("a: 1\nb: %x\n", 2),
        ("a: 1\nb: c: d\n", 2),
        ('a: 1\nb: "\\q"\n', 2),
    ],
)
def test_broken_yaml_is_an_error_with_its_line(head: str, text: str, line: int) -> None:
    assert complaint(head + text).startswith(f"a.yaml:{line + head.count(chr(10))}: not YAML: ")


@both_scanners
@pytest.mark.parametrize(
    "before",
    ["a: 1\n", "ä: ääääääääääääääääääääääääää\n", "# \U0001f600\U0001f600\U0001f600\n"],
    ids=["ascii", "latin", "emoji"],
)
def test_a_control_character_is_an_error_with_its_line(head: str, before: str) -> None:
    message = "the character U+0001 cannot stand here as it is; write it as an escape in double quotes"
    line = 2 + head.count("\n")
    assert complaint(f'{head}{before}b: "x\x01y"\nc: 1\nd: 2\ne: 3\nf: 4\n') == f"a.yaml:{line}: not YAML: {message}"


def test_a_control_character_may_be_escaped() -> None:
    assert read('a: "x\\x01y"\n') == {"a": "x\x01y"}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"\xef\xbb\xbfa: 1\n", {"a": 1}),
        (b"a: |\r\n  x\r\n  y\r\nb: 1\r\n", {"a": "x\ny\n", "b": 1}),
        ("a: \u00e9\n".encode(), {"a": "\u00e9"}),
        (b"a: 1", {"a": 1}),
    ],
    ids=["bom", "crlf", "utf-8", "no-newline"],
)
def test_a_file_is_utf_8_with_or_without_a_mark_and_with_any_line_ending(
    tmp_path: Path, raw: bytes, value: object
) -> None:
    (tmp_path / "a.yaml").write_bytes(raw)
    assert load(tmp_path / "a.yaml").value == value


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"a: 1\r\nb: \xff\n", "a.yaml:2: not UTF-8: byte 0xff cannot stand here; save the file as UTF-8"),
        ("a: é\n".encode("latin-1"), "a.yaml:1: not UTF-8: byte 0xe9 cannot stand here; save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "a.yaml:1: not UTF-8: byte 0xff cannot stand here; save the file as UTF-8"),
        (None, "a.yaml: cannot be read: No such file or directory"),
    ],
    ids=["byte", "latin-1", "utf-16", "missing"],
)
def test_a_file_that_is_not_utf_8_or_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bytes | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if raw is not None:
        FILE.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        load(FILE)
    assert str(caught.value) == message


@pytest.fixture
def document() -> Document:
    return loads("a:\n  - x: 1\n    y: &y\n      z: 2\n  - 3\n\nb: *y\nc:\n  <<: *y\n  w: 1\n", FILE)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ((), 1),
        (("a",), 1),
        (("a", 0), 2),
        (("a", 0, "y"), 3),
        (("a", 0, "y", "z"), 4),
        (("a", 1), 5),
        (("b",), 7),
        (("b", "z"), 4),
        (("c", "w"), 10),
        (("a", 0, "y", "missing", 3), 3),
        (("missing",), 1),
    ],
)
def test_every_key_and_item_knows_its_line(document: Document, where: yaml12.Where, line: int) -> None:
    assert document.line(where) == line


def test_an_error_names_file_line_and_path(document: Document) -> None:
    assert str(document.error(("a", 0, "y"), "too bad")) == "a.yaml:3: a[0].y: too bad"
    assert str(document.error((), "too bad")) == "a.yaml:1: too bad"


def test_a_config_error_is_a_value_error() -> None:
    assert issubclass(ConfigError, ValueError)


def test_a_path_is_dotted() -> None:
    assert dotted_path(("cases", "tools", "messages", 0)) == "cases.tools.messages[0]"
    assert dotted_path(()) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (1.5, "the number 1.5"),
        ("", "an empty string"),
        ("x" * 50, f"the string '{'x' * 40}'"),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping"),
    ],
)
def test_a_value_is_named_in_the_words_of_the_file(value: object, words: str) -> None:
    assert kind(value) == words


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("tool", ["messages", "tools"], " (did you mean 'tools'?)"),
        ("zzz", ["messages", "tools"], " (there are messages, tools)"),
        ("zzz", [], ""),
    ],
)
def test_a_name_close_to_a_known_one_is_suggested(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known, "there are") == hint
