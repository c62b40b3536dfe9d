"""Markers: one for each model and `tokenparity`, there before anything is collected, and never in anyone's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, letters_config

STRICT = "[pytest]\naddopts = --strict-markers\n"
WORKERS = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(
        tmp_path,
        {
            "pytest.ini": STRICT,
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": letters_config("letters"),
            "tests/chat.tokenparity.yaml": PLAIN,
            "tests/unit/test_unit.py": "def test_unit(): pass\n",
        },
    )


def test_the_markers_are_registered_and_described(project: Project) -> None:
    output = project.pytest("--markers").output
    assert "@pytest.mark.tokenparity(model, engine, shape): an item of a case file (pytest-tokenparity)\n" in output
    assert "@pytest.mark.tiny: items of one model (pytest-tokenparity)\n" in output


@pytest.mark.parametrize(
    ("name", "more", "marker"),
    [
        ("qwen3-0.6b", "", "qwen3_0_6b"),
        ("Llama--3.1+x", "", "Llama_3_1_x"),
        ("tiny", "    marker: small\n", "small"),
    ],
)
def test_a_models_marker_is_its_name_or_what_the_configuration_says(
    project: Project, name: str, more: str, marker: str
) -> None:
    project.write("tokenparity.yaml", letters_config("letters").replace("  tiny:\n", f"  {name}:\n{more}"))
    result = project.pytest("--collect-only", "-q", "-m", marker)
    assert f"tests/chat.tokenparity.yaml::plain[{name}-letters]\n" in result.output
    assert "1/2 tests collected (1 deselected)" in result.output


@WORKERS
@pytest.mark.parametrize(
    "config",
    [
        pytest.param(letters_config("letters"), id="sound"),
        pytest.param(letters_config("letters").replace("engines:", "engine:"), id="unknown-key"),
        pytest.param(letters_config("letters") + "  - [\n", id="no-yaml"),
    ],
)
def test_plain_tests_run_under_strict_markers_without_a_model(
    project: Project, config: str, workers: tuple[str, ...]
) -> None:
    project.write("tokenparity.yaml", config)
    result = project.pytest("-m", "not tiny", "tests/unit", *workers)
    assert result.passed(1), result.output
    assert "INTERNALERROR" not in result.output


def test_a_broken_configuration_fails_the_case_files_alone(project: Project) -> None:
    project.edit("tokenparity.yaml", "engines:", "engine:")
    result = project.pytest()
    assert result.code == 1
    assert "1 passed, 1 error" in result.output
    assert "tokenparity: tokenparity.yaml cannot be used (its case files say why)" in result.output
    assert (
        "\ntokenparity.yaml:4: models.tiny: unknown key 'engine' (did you mean 'engines'?)\n"
        in result.output.replace("models.tiny.engine: ", "models.tiny: ")
    )
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            "--strict-markers",
            1,
            "tests/chat.tokenparity.yaml:7: cases.plain.marks: 'slow' not found in `markers` configuration option",
        ),
        (
            "",
            0,
            (
                "/tests/chat.tokenparity.yaml:7: TokenParityWarning: cases.plain.marks: 'slow' is not registered: "
                "add it to `markers` in the ini file"
            ),
        ),
    ],
    ids=["strict", "lenient"],
)
def test_an_unknown_mark_is_an_error_only_under_strict_markers(
    project: Project, options: str, code: int, message: str
) -> None:
    project.write("pytest.ini", f"[pytest]\naddopts = {options}\n")
    project.edit("tests/chat.tokenparity.yaml", "question}", "question, marks: [slow]}")
    result = project.pytest("--collect-only", "-W", "default")
    assert result.code == code
    assert message in result.output
    assert "Traceback" not in result.output


@WORKERS
@pytest.mark.parametrize("owner", ["ini", "conftest"])
def test_a_marker_that_is_registered_already_is_an_error_of_the_configuration(
    project: Project, owner: str, workers: tuple[str, ...]
) -> None:
    if owner == "ini":
        project.write("pytest.ini", STRICT + "markers =\n    tiny: small tests\n")
    else:
        register = 'def pytest_configure(config):\n    config.addinivalue_line("markers", "tiny: small tests")\n'
        project.write("conftest.py", LETTERS_CONFTEST + register)
    result = project.pytest(*workers)
    assert "1 passed, 1 error" in result.output
    message = (
        "tokenparity.yaml:2: models.tiny: the marker 'tiny' is registered already, by this project or another plugin; "
        "set another with `marker:`"
    )
    assert f"\n{message}\n" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("skip", "the marker 'skip' is pytest's own; set another with `marker:`"),
        ("tokenparity", "the marker 'tokenparity' is this plugin's own; set another with `marker:`"),
        ("not", "the marker 'not' is a word of `-m` expressions; set another with `marker:`"),
        ("a-b", "the marker 'a-b' must be letters, digits and _, as after `-m`"),
    ],
)
def test_a_marker_that_means_something_else_is_an_error(project: Project, marker: str, message: str) -> None:
    project.edit("tokenparity.yaml", "    engines:", f"    marker: {marker}\n    engines:")
    result = project.pytest("tests/chat.tokenparity.yaml")
    assert result.code == 1
    assert f"\ntokenparity.yaml:4: models.tiny.marker: {message}\n" in result.output


def test_two_models_of_one_marker_are_an_error(project: Project) -> None:
    project.write("tokenparity.yaml", letters_config() + letters_config().replace("models:\n  tiny:", "  Tiny-:"))
    project.edit("tokenparity.yaml", "  tiny:\n", "  Tiny.:\n".replace(".:", "+:"))
    result = project.pytest("tests/chat.tokenparity.yaml")
    assert result.code == 1
    assert (
        "tokenparity.yaml:6: models.Tiny-: the models 'Tiny+' and 'Tiny-' share the marker 'Tiny_'; set another with "
        "`marker:`"
    ) in result.output


def test_a_test_may_wear_a_models_marker(project: Project) -> None:
    project.write("tests/unit/test_unit.py", "import pytest\n\n\n@pytest.mark.tiny\ndef test_unit(): pass\n")
    result = project.pytest("tests/unit", "-m", "tiny")
    assert result.passed(1)
    assert "tokenparity ==" not in result.output
