"""`tokenparity.yaml` as data, and every complaint about it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import ConfigError
from pytest_tokenparity.config import (
    Config,
    check_name,
    default_marker,
    expand,
    load_config,
    readable_markers,
    unlike_by_case,
)
from pytest_tokenparity.session import find_config

FILE = Path("tokenparity.yaml")

EXAMPLE = """\
golden_dir: golden
models:
  qwen3-0.6b:
    tokenizer: Qwen/Qwen3-0.6B
    revision: c1899de289a04d12100db370d81485cdf75e47ca
    template: my_template.jinja
    clock: 2026-01-02T03:04:05
    engines:
      transformers: {}
      llama-server: {url: "${QWEN_URL:-http://localhost:9932}"}
      posted-string:
        type: client-completion
        url: "${QWEN_URL:-http://localhost:9932}"
        render: "myapp.prompts:render"
        model: served-name
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder: messages name files relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(text: str) -> Config:
    FILE.write_bytes(text.encode())
    return load_config(FILE)


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config(text)
    return str(caught.value)


def one_model(more: str = "", engines: str = "transformers: {}", name: str = "m") -> str:
    """A model whose ``more`` stands on line 4."""
    return f"models:\n  {name}:\n    tokenizer: t\n{more}    engines:\n      {engines}\n"


def test_every_key_of_the_example_is_read(folder: Path) -> None:
    read = config(EXAMPLE)
    assert read.path == folder / "tokenparity.yaml"
    assert read.folder == folder
    assert read.golden_dir == folder / "golden"
    assert list(read.models) == ["qwen3-0.6b"]
    model = read.model("qwen3-0.6b")
    assert model.tokenizer == "Qwen/Qwen3-0.6B"
    assert model.revision == "c1899de289a04d12100db370d81485cdf75e47ca"
    assert model.template == "my_template.jinja"
    assert model.clock == datetime(2026, 1, 2, 3, 4, 5)
    assert model.marker == "qwen3_0_6b"
    assert model.places[""] == "tokenparity.yaml:3: models.qwen3-0.6b"
    assert model.places["tokenizer"].endswith(": models.qwen3-0.6b.tokenizer")
    assert [(engine.name, engine.type, engine.options) for engine in model.engines] == [
        ("transformers", "transformers", {}),
        ("llama-server", "llama-server", {"url": "${QWEN_URL:-http://localhost:9932}"}),
        (
            "posted-string",
            "client-completion",
            {
                "url": "${QWEN_URL:-http://localhost:9932}",
                "render": "myapp.prompts:render",
                "model": "served-name",
            },
        ),
    ]


def test_the_first_engine_is_the_reference() -> None:
    model = config(EXAMPLE.replace("      transformers: {}\n", "") + "      transformers: {}\n").models["qwen3-0.6b"]
    assert [engine.name for engine in model.engines] == ["llama-server", "posted-string", "transformers"]
    assert model.reference.name == "llama-server"


def test_what_is_not_written_has_a_default(folder: Path) -> None:
    read = config(one_model())
    model = read.models["m"]
    assert read.golden_dir == folder / "golden"
    assert (model.revision, model.template, model.marker) == (None, None, "m")
    assert model.clock == datetime(2026, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("written", ["transformers:", "transformers: {}", "transformers: null"])
def test_an_engine_with_nothing_after_it_has_no_options(written: str) -> None:
    assert config(one_model(engines=written)).models["m"].reference.options == {}


def test_an_engine_knows_its_place() -> None:
    engine = config(EXAMPLE).models["qwen3-0.6b"].engine("posted-string")
    assert engine.place == "tokenparity.yaml:11: models.qwen3-0.6b.engines.posted-string"


def test_variables_are_not_expanded_when_the_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWEN_URL", "http://elsewhere")
    engine = config(EXAMPLE).models["qwen3-0.6b"].engine("llama-server")
    assert engine.options["url"] == "${QWEN_URL:-http://localhost:9932}"
    unset = one_model(engines='llama-server: {url: "${NOT_SET_ANYWHERE}"}')
    assert config(unset).models["m"].reference.options == {"url": "${NOT_SET_ANYWHERE}"}


def test_an_engine_of_a_type_of_somebody_elses_may_have_any_options() -> None:
    engine = (
        config(one_model(engines="mine: {type: my-own, anything: [1, {a: b}], model: served}")).models["m"].reference
    )
    assert (engine.name, engine.type) == ("mine", "my-own")
    assert engine.options == {"anything": [1, {"a": "b"}], "model": "served"}


def test_options_can_be_merged() -> None:
    text = one_model(
        engines="llama-server: &server {url: x, timeout: 2}\n      second: {<<: *server, type: llama-server}"
    )
    second = config(text).models["m"].engine("second")
    assert (second.type, second.options) == ("llama-server", {"url": "x", "timeout": 2})


@pytest.mark.parametrize(
    ("golden_dir", "expected"),
    [("goldens/deep", "goldens/deep"), ("./golden", "golden"), ("../golden", "../golden")],
)
def test_the_golden_folder_is_relative_to_the_file(folder: Path, golden_dir: str, expected: str) -> None:
    (folder / "sub").mkdir()
    file = folder / "sub" / "tokenparity.yaml"
    file.write_text(f"golden_dir: {golden_dir}\n{one_model()}", encoding="utf-8")
    assert load_config(file).golden_dir == (folder / "sub" / expected).resolve()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tokenparity.yaml:1: the file is empty; it needs `models:`"),
        ("# nothing\n", "tokenparity.yaml:1: the file is empty; it needs `models:`"),
        ("- a\n", "tokenparity.yaml:1: expected a mapping with `models`, found a list"),
        ("models\n", "tokenparity.yaml:1: expected a mapping with `models`, found the string 'models'"),
        ("golden_dir: x\n", "tokenparity.yaml:1: `models:` is missing: name at least one model"),
        ("golden_dir: x\nmodels: {}\n", "tokenparity.yaml:2: models: no model here: name at least one"),
        ("models:\n", "tokenparity.yaml:1: models: expected a mapping of model names, found nothing (null)"),
        ("models: [m]\n", "tokenparity.yaml:1: models: expected a mapping of model names, found a list"),
        (
            "golden_dir: 1\nmodels: {}\n",
            "tokenparity.yaml:1: golden_dir: expected a string, found the number 1 (put it in quotes)",
        ),
        (
            "models:\n  m:\n",
            "tokenparity.yaml:2: models.m: expected a mapping with `tokenizer` and `engines`, found nothing (null)",
        ),
        (
            "models:\n  m: {engines: {transformers: }}\n",
            "tokenparity.yaml:2: models.m: `tokenizer:` is missing: a Hub id, or a folder relative to this file",
        ),
        (
            "models:\n  m:\n    tokenizer:\n",
            "tokenparity.yaml:3: models.m.tokenizer: expected a string, found nothing (null)",
        ),
        (
            "models:\n  m: {tokenizer: t}\n",
            "tokenparity.yaml:2: models.m: `engines:` needs at least one engine, the reference",
        ),
        (
            "models:\n  m:\n    tokenizer: t\n    engines: {}\n",
            "tokenparity.yaml:4: models.m.engines: `engines:` needs at least one engine, the reference",
        ),
        (
            "models:\n  m:\n    tokenizer: t\n    engines: [transformers]\n",
            "tokenparity.yaml:4: models.m.engines: expected a mapping of engine names, found a list",
        ),
        (
            one_model(engines="transformers: x"),
            (
                "tokenparity.yaml:5: models.m.engines.transformers: expected a mapping of the engine's options, such as {}, "
                "found the string 'x'"
            ),
        ),
        (
            one_model("    revision: 123\n"),
            "tokenparity.yaml:4: models.m.revision: expected a string, found the number 123 (put it in quotes)",
        ),
        (
            one_model("    template: true\n"),
            "tokenparity.yaml:4: models.m.template: expected a string, found true (put it in quotes)",
        ),
        (
            one_model("    template: ''\n"),
            "tokenparity.yaml:4: models.m.template: expected a string, found an empty string",
        ),
        (
            one_model("    clock: yesterday\n"),
            "tokenparity.yaml:4: models.m.clock: expected a date and time such as 2026-01-02T03:04:05, found 'yesterday'",
        ),
        (
            one_model(engines="mine: {type: 1}"),
            "tokenparity.yaml:5: models.m.engines.mine.type: expected a string, found the number 1 (put it in quotes)",
        ),
        (
            one_model(engines="mine: {model: 1}"),
            "tokenparity.yaml:5: models.m.engines.mine.model: expected a string, found the number 1 (put it in quotes)",
        ),
        (
            one_model(engines="llama-server:"),
            "tokenparity.yaml:5: models.m.engines.llama-server: the engine type 'llama-server' needs `url:`",
        ),
        (
            one_model(engines="mine: {type: client-completion}"),
            "tokenparity.yaml:5: models.m.engines.mine: the engine type 'client-completion' needs `url:`",
        ),
        (
            one_model(engines="llama-server: {url: }"),
            "tokenparity.yaml:5: models.m.engines.llama-server.url: expected a string, found nothing (null)",
        ),
        (
            one_model(engines="llama-server: {url: x, timeout: true}"),
            "tokenparity.yaml:5: models.m.engines.llama-server.timeout: expected a number, found true",
        ),
        *(
            (
                one_model(engines=f"llama-server: {{url: x, timeout: {seconds}}}"),
                (
                    "tokenparity.yaml:5: models.m.engines.llama-server.timeout: must be more than 0 and at most 86400 "
                    "seconds, a day"
                ),
            )
            for seconds in ("0", "86401", "1e300")
        ),
        *(
            (
                f"golden_dir: {folder}\n{one_model()}",
                "tokenparity.yaml:1: golden_dir: a path relative to this file, without ~ and ${...}: goldens are committed",
            )
            for folder in ("~/golden", "'${HOME}/golden'")
        ),
        (one_model('    template: "a\\0b"\n'), "tokenparity.yaml:4: models.m.template: NUL cannot stand here"),
        (
            one_model(engines="client-completion: {url: x, add_special: off}"),
            (
                "tokenparity.yaml:5: models.m.engines.client-completion.add_special: expected true or false, "
                "found the string 'off'"
            ),
        ),
        (
            one_model(engines="client-completion: {url: x, add_special: 1}"),
            (
                "tokenparity.yaml:5: models.m.engines.client-completion.add_special: expected true or false, "
                "found the number 1"
            ),
        ),
        ("models:\n  m: {}\n  m: {}\n", "tokenparity.yaml:3: the key 'm' stands twice (first on line 2)"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_line(text: str, message: str) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {}\n", "tokenparity.yaml:1: unknown key 'model' (did you mean 'models'?)"),
        ("goldens: x\nmodels: {}\n", "tokenparity.yaml:1: unknown key 'goldens' (did you mean 'golden_dir'?)"),
        (
            one_model("    tokeniser: t\n"),
            "tokenparity.yaml:4: models.m: unknown key 'tokeniser' (did you mean 'tokenizer'?)",
        ),
        (
            one_model("    zzz: t\n"),
            (
                "tokenparity.yaml:4: models.m: unknown key 'zzz' "
                "(the keys here are tokenizer, revision, template, clock, engines, marker)"
            ),
        ),
        (
            one_model(engines="llama-server:\n        url: x\n        timeuot: 1"),
            "tokenparity.yaml:7: models.m.engines.llama-server: unknown key 'timeuot' (did you mean 'timeout'?)",
        ),
        (
            one_model(engines="mine: {type: llama-server, url: x, zzz: y}"),
            (
                "tokenparity.yaml:5: models.m.engines.mine: unknown key 'zzz' "
                "(the keys here are type, url, model, timeout, api_key_env, headers, verify, concurrency, slot_save_path)"
            ),
        ),
    ],
)
def test_an_unknown_key_is_an_error_that_suggests_one(text: str, message: str) -> None:
    """`FILE:LINE: the mapping it stands in: unknown key ...`, as style.md shows it for cases."""
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("written", "clock"),
    [
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        ("'2026-01-02T03:04'", datetime(2026, 1, 2, 3, 4)),
        ("2026-01-02", datetime(2026, 1, 2)),
    ],
)
def test_the_clock_is_a_date_and_time(written: str, clock: datetime) -> None:
    assert config(one_model(f"    clock: {written}\n")).models["m"].clock == clock


BAD_CHARACTERS = "use letters, digits and . _ + -, starting with a letter or digit"

bad_names = pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a b", f"'a b': {BAD_CHARACTERS}"),
        ("a/b", f"'a/b': {BAD_CHARACTERS}"),
        ("a:b", f"'a:b': {BAD_CHARACTERS}"),
        ("a[b]", f"'a[b]': {BAD_CHARACTERS}"),
        ("-a", f"'-a': {BAD_CHARACTERS}"),
        (".a", f"'.a': {BAD_CHARACTERS}"),
        ("_a", f"'_a': {BAD_CHARACTERS}"),
        ("", f"'': {BAD_CHARACTERS}"),
        ("\u00e9", f"'\u00e9': {BAD_CHARACTERS}"),
        ("a\n", f"'a\\n': {BAD_CHARACTERS}"),
        ("a.", "'a.' ends with a dot, which Windows drops from file names"),
        ("con", "'con' is a device name on Windows"),
        ("PRN", "'PRN' is a device name on Windows"),
        ("Aux.yaml", "'Aux.yaml' is a device name on Windows"),
        ("nul", "'nul' is a device name on Windows"),
        ("com1", "'com1' is a device name on Windows"),
        ("LPT9.x.y", "'LPT9.x.y' is a device name on Windows"),
    ],
)


@bad_names
def test_a_name_that_no_file_or_id_can_hold_is_refused(name: str, fault: str) -> None:
    assert check_name(name, "the name") == f"the name {fault}"


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "7",
        "qwen3-0.6b",
        "A+b",
        "a_b",
        "a..b",
        "console",
        "com10",
        "lpt",
        "nul1",
        "my.con",
        "con-a",
        "none",
        "aux_",
    ],
)
def test_other_names_are_taken(name: str) -> None:
    assert check_name(name, "the name") is None


@pytest.mark.parametrize("name", ["a b", "a/b", "-a", "a.", "con"])
def test_the_names_of_models_and_engines_are_checked(name: str) -> None:
    assert complaint(one_model(name=f'"{name}"')) == f"tokenparity.yaml:2: models.{name}: " + str(
        check_name(name, "the model name")
    )
    assert complaint(one_model(engines=f'"{name}": {{}}')) == f"tokenparity.yaml:5: models.m.engines.{name}: " + str(
        check_name(name, "the engine name")
    )


@pytest.mark.parametrize(
    ("names", "twins"),
    [(["a", "b", "A"], ("a", "A")), (["Qwen3", "qwen3"], ("Qwen3", "qwen3")), (["a", "b", "ab"], None), ([], None)],
)
def test_names_that_differ_by_case_alone_are_found(names: list[str], twins: tuple[str, str] | None) -> None:
    assert unlike_by_case(names) == twins


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            one_model() + "  M: {tokenizer: t, marker: other, engines: {transformers: }}\n",
            "tokenparity.yaml:6: models.M: 'm' and 'M' differ by case alone: one file on some disks",
        ),
        (
            one_model(engines="fast: {}\n      Fast: {}"),
            "tokenparity.yaml:6: models.m.engines.Fast: 'fast' and 'Fast' differ by case alone: one file on some disks",
        ),
    ],
)
def test_two_names_that_differ_by_case_alone_are_an_error(text: str, message: str) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("model", "marker"),
    [
        ("qwen3-0.6b", "qwen3_0_6b"),
        ("gemma_3", "gemma_3"),
        ("a.-+b", "a_b"),
        ("llama-3.1-8B-", "llama_3_1_8B_"),
        ("7b", "7b"),
    ],
)
def test_a_models_marker_is_its_name_with_an_underscore_for_each_run_of_other_characters(
    model: str, marker: str
) -> None:
    assert default_marker(model) == marker
    assert config(one_model(name=f"'{model}'")).models[model].marker == marker


def test_a_marker_can_be_given() -> None:
    assert config(one_model("    marker: tiny\n")).models["m"].marker == "tiny"


OWN = {
    **dict.fromkeys(
        ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "tryfirst", "trylast"),
        "is pytest's own; set another with `marker:`",
    ),
    "tokenparity": "is this plugin's own; set another with `marker:`",
    **dict.fromkeys(
        ("and", "or", "not", "True", "False", "None"), "is a word of `-m` expressions; set another with `marker:`"
    ),
}


@pytest.mark.parametrize(("marker", "fault"), OWN.items())
def test_a_marker_that_is_pytests_own_or_a_word_of_an_expression_is_an_error(marker: str, fault: str) -> None:
    message = f"the marker {marker!r} {fault}"
    assert complaint(one_model(f"    marker: {marker}\n")) == f"tokenparity.yaml:4: models.m.marker: {message}"
    assert complaint(one_model(name=marker)) == f"tokenparity.yaml:2: models.{marker}: {message}"


def test_a_model_named_like_a_marker_of_pytest_may_set_another() -> None:
    assert config(one_model("    marker: skipper\n", name="skip")).models["skip"].marker == "skipper"


@pytest.mark.parametrize("marker", ["a-b", "a.b", "a b", "_a", "a[b]", "\u00e9"])
def test_a_marker_that_cannot_be_selected_is_an_error(marker: str) -> None:
    assert complaint(one_model(f'    marker: "{marker}"\n')) == (
        f"tokenparity.yaml:4: models.m.marker: the marker {marker!r} must be letters, digits and _, as after `-m`"
    )


@pytest.mark.parametrize(
    "second", ["a.b: {tokenizer: t, engines: {e: }}", "c: {tokenizer: t, marker: a_b, engines: {e: }}"]
)
def test_a_marker_shared_by_two_models_is_an_error(second: str) -> None:
    name = second.split(":")[0]
    assert complaint(f"models:\n  a-b: {{tokenizer: t, engines: {{e: }}}}\n  {second}\n") == (
        f"tokenparity.yaml:3: models.{name}: the models 'a-b' and {name!r} share the marker 'a_b'; "
        "set another with `marker:`"
    )


@pytest.mark.parametrize("engine", ["c", "C"])
def test_two_pairs_of_model_and_engine_that_make_one_id_are_an_error(engine: str) -> None:
    text = (
        f"models:\n  a: {{tokenizer: t, engines: {{b-c: }}}}\n  a-b:\n    tokenizer: t\n    engines:\n      {engine}:\n"
    )
    assert complaint(text) == (
        f"tokenparity.yaml:6: models.a-b.engines.{engine}: model 'a-b' with engine {engine!r} and model 'a' with engine "
        f"'b-c' make one id, a-b-{engine}; rename one"
    )


def test_a_model_or_engine_that_is_not_there_is_an_error_that_suggests_one() -> None:
    read = config(EXAMPLE)
    with pytest.raises(ConfigError) as caught:
        read.model("qwen3-0.6")
    assert str(caught.value) == "tokenparity.yaml has no model 'qwen3-0.6' (did you mean 'qwen3-0.6b'?)"
    with pytest.raises(ConfigError) as caught:
        read.model("qwen3-0.6b").engine("zzz")
    assert str(caught.value) == (
        "model 'qwen3-0.6b' has no engine 'zzz' (it has transformers, llama-server, posted-string)"
    )


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        ("http://${HOST}:${PORT}/v1", "http://example:8080/v1"),
        ("${HOST}${HOST}", "exampleexample"),
        ("${HOST:-other}", "example"),
        ("${UNSET:-http://localhost:9932}", "http://localhost:9932"),
        ("${UNSET:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", "default"),
        ("$HOST", "$HOST"),
        ("${1}", "${1}"),
        ("no variable", "no variable"),
        ({"url": "${HOST}", "list": ["${PORT}", 3, None, True], "${HOST}": 1.5}, None),
        (30, 30),
        (True, True),
        (None, None),
    ],
)
def test_variables_are_expanded_in_every_string(monkeypatch: pytest.MonkeyPatch, value: Any, expanded: Any) -> None:
    monkeypatch.setenv("HOST", "example")
    monkeypatch.setenv("PORT", "8080")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    if isinstance(value, dict):
        expanded = {"url": "example", "list": ["8080", 3, None, True], "${HOST}": 1.5}
    assert expand(value, "here") == expanded


def test_the_value_of_a_variable_is_not_expanded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${INNER}")
    monkeypatch.setenv("INNER", "x")
    assert expand("${OUTER}", "here") == "${INNER}"


def test_expanding_leaves_the_value_it_was_given_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "example")
    value = {"a": ["${HOST}"]}
    expand(value, "here")
    assert value == {"a": ["${HOST}"]}


def test_an_unset_variable_without_a_default_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    place = "tokenparity.yaml:5: models.m.engines.llama-server"
    with pytest.raises(ConfigError) as caught:
        expand({"url": ["http://${UNSET}"]}, place)
    assert str(caught.value) == (
        f"{place}: the environment variable UNSET is not set; set it, or give a default: ${{UNSET:-...}}"
    )


def test_the_nearest_configuration_at_or_above_the_start_is_found(folder: Path) -> None:
    start = folder / "a" / "b"
    start.mkdir(parents=True)
    (folder / "tokenparity.yaml").touch()
    assert find_config(start, folder) == folder / "tokenparity.yaml"
    (folder / "a" / "tokenparity.yaml").touch()
    assert find_config(start, folder) == folder / "a" / "tokenparity.yaml"
    (start / "tokenparity.yaml").touch()
    assert find_config(start, folder) == start / "tokenparity.yaml"


def test_a_configuration_below_the_start_is_not_found_unless_it_is_rootdirs(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "tokenparity.yaml").touch()
    assert find_config(folder / "a", folder) is None
    assert find_config(folder / "a", folder / "a" / "b") == folder / "a" / "b" / "tokenparity.yaml"


def test_the_one_above_the_start_comes_before_rootdirs(folder: Path) -> None:
    for name in ("project", "root"):
        (folder / name).mkdir()
        (folder / name / "tokenparity.yaml").touch()
    assert find_config(folder / "project", folder / "root") == folder / "project" / "tokenparity.yaml"


def test_a_folder_of_that_name_is_no_configuration(folder: Path) -> None:
    (folder / "tokenparity.yaml").mkdir()
    assert find_config(folder, folder) is None


@pytest.mark.parametrize(
    ("raw", "markers"),
    [
        (b"models:\n  a-b: {marker: x}\n  c: 5\n  d: {marker: 5}\n", ["x", "c", "d"]),
        (b"models:\n  a: {marker: bad-marker}\n  b: {}\n", ["b"]),
        (b"models:\n  a-b: {unknown: 1}\n  a.b: {}\n  con: {}\n", ["a_b", "con"]),
        (b"models:\n  a-b:\n    x: y\n  # note\n\n  'c.d': {\n  e: [\n", ["a_b", "c_d", "e"]),
        (b"models:\n  a: {}\n  a: {}\n  b: {}\n", ["a", "b"]),
        (b"models:\r\n  a:\r\n    x: [\r\n  b:\r\n", ["a", "b"]),
        (b"models:\n  a:\n    x: \xff\n  b: {}\n", ["a", "b"]),
        (b"\xef\xbb\xbfmodels:\n  a:\n    x: [\n", ["a"]),
        (b"golden_dir: [\nmodels:\n    a:\n        x: 1\n    b:\nother:\n    c: 1\n", ["a", "b"]),
        (b"models: [a]\n", []),
        (b"models:\n", []),
        (b"- a\n", []),
        (b"", []),
        (b"models: {\n", []),
    ],
    ids=[
        *("valid", "bad-marker", "bad-keys", "not-yaml", "duplicates", "crlf", "not-utf-8", "bom", "deeper", "list"),
        *("null", "top-list", "empty", "open"),
    ],
)
def test_the_markers_of_a_broken_configuration_are_those_of_every_name_that_can_be_read(
    raw: bytes, markers: list[str]
) -> None:
    """So that `-m 'not that_model'` works under strict markers while the file is mended."""
    FILE.write_bytes(raw)
    assert readable_markers(FILE) == markers


def test_a_marker_that_a_broken_configuration_gives_is_read() -> None:
    FILE.write_bytes(b"models:\n  a:\n    marker: tiny\n    engines: [\n  b:\n    engines: {}\n")
    assert readable_markers(FILE) == ["tiny", "b"]


def test_a_configuration_that_is_not_there_has_no_markers() -> None:
    assert readable_markers(FILE) == []
