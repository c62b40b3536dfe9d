"""pytest's hooks: options, ini, markers, header and summary. Imports nothing heavy: it is loaded in every run."""

from __future__ import annotations

import argparse
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .session import ALIAS, ALIAS_IS_OURS, FAILED, OUTCOME_KEY, PARTLY, SESSION, UNREACHABLE, ParitySession, find_config

if TYPE_CHECKING:
    from .fixture import TokenParity

_UPDATE_HELP = "record the goldens that changed, are missing or were edited"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tokenparity", "golden token IDs (pytest-tokenparity)")
    group.addoption(
        "--tokenparity-update",
        action="store_true",
        dest="tokenparity_update",
        default=False,
        help=f"{_UPDATE_HELP} (alias: {ALIAS})",
    )
    group.addoption(
        "--tokenparity-update-new",
        action="store_true",
        dest="tokenparity_update_new",
        default=False,
        help="record only the goldens that are missing",
    )
    group.addoption(
        "--tokenparity-prune",
        action="store_true",
        dest="tokenparity_prune",
        default=False,
        help="delete goldens whose case is gone",
    )
    group.addoption(
        "--tokenparity-force",
        action="store_true",
        dest="tokenparity_force",
        default=False,
        help="write goldens even where CI is set",
    )
    group.addoption(
        "--tokenparity-unreachable",
        choices=("fail", "skip"),
        dest="tokenparity_unreachable",
        default="fail",
        help="what becomes of items whose engine cannot be reached (default: fail)",
    )
    group.addoption(
        "--tokenparity-wait",
        type=_seconds,
        metavar="SECONDS",
        dest="tokenparity_wait",
        default=None,
        help="how long to wait for a server: while it loads its model (default: 30), and, if this is given, while its "
        "port refuses connections",
    )
    parser.addini(
        "tokenparity_config", "the configuration, relative to this ini file (default: the nearest tokenparity.yaml)"
    )
    parser.addini(
        "tokenparity_files",
        "file name patterns of case files",
        type="args",
        default=["*.tokenparity.yaml", "*.tokenparity.yml"],
    )


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from . import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Add the alias, unless the project's own conftest has a flag of that name: two would stop pytest from starting."""
    if ALIAS in args and ALIAS in parser.parse_known_and_unknown_args(args)[1]:
        group = parser.getgroup("tokenparity")
        group.addoption(ALIAS, action="store_true", dest="tokenparity_update", default=False, help=_UPDATE_HELP)
        early_config.stash[ALIAS_IS_OURS] = True


@pytest.hookimpl(trylast=True)  # last: every other plugin has registered its markers
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tokenparity(model, engine, shape): an item of a case file (pytest-tokenparity)")
    session = ParitySession(config, _config_path(config))
    config.stash[SESSION] = session
    writing = [
        flag
        for flag, given in (
            ("--tokenparity-update", config.option.tokenparity_update),
            ("--tokenparity-update-new", config.option.tokenparity_update_new),
            ("--tokenparity-prune", config.option.tokenparity_prune),
        )
        if given
    ]
    if writing[:1] == ["--tokenparity-update"] and config.stash.get(ALIAS_IS_OURS, False):
        writing = [ALIAS]
    if writing and os.environ.get("CI") and not config.option.tokenparity_force:
        raise pytest.UsageError(
            f"{writing[0]} writes goldens, and the environment variable CI is set: goldens are recorded where a person "
            "reviews them. To write them here all the same, add --tokenparity-force"
        )
    session.load()
    _register_markers(config, session)
    if session.config_path is not None:
        config.pluginmanager.register(_FailureTexts(config), "tokenparity-failures")


class _FailureTexts:
    """Makes failures that came as plain text (from an xdist worker, from a test function) look like all others."""

    def __init__(self, config: pytest.Config) -> None:
        self.crash_line_alone = config.option.tbstyle == "line"
        self.rootpath = config.rootpath

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = [value for key, value in report.user_properties if key == OUTCOME_KEY]
        if not report.failed or not said or said[-1] not in (FAILED, UNREACHABLE):
            return
        from .failure import FailureText

        crash = getattr(report.longrepr, "reprcrash", None)
        plain = isinstance(report.longrepr, str) and not isinstance(report.longrepr, FailureText)
        if plain or getattr(crash, "message", "").startswith("Failed: "):
            path, line, _ = report.location
            shown = os.path.relpath(self.rootpath / path)
            report.longrepr = FailureText.of_text(str(report.longrepr), shown, (line or 0) + 1, self.crash_line_alone)


def pytest_report_header(config: pytest.Config) -> str | None:
    session = config.stash[SESSION]
    if session.config_path is None:
        return None
    shown = os.path.relpath(session.config_path, config.invocation_params.dir)
    if session.config is None:
        return f"tokenparity: {shown} cannot be used (its case files say why)"
    models = ", ".join(
        f"{model.name} ({', '.join(engine.name for engine in model.engines)})"
        for model in session.config.models.values()
    )
    return f"tokenparity: {shown}: {models}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    patterns: list[str] = parent.config.getini("tokenparity_files")
    # Asked for every file of a project: a path is matched only against a pattern that has folders in it.
    if not any(file_path.match(it) if "/" in it else fnmatchcase(file_path.name, it) for it in patterns):
        return None
    from .collection import ParityFile

    return ParityFile.from_parent(parent, path=file_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the items of one model together over all case files; other tests keep their places."""
    if not config.stash[SESSION].tally.case_files:
        return
    from .collection import ParityItem

    places = [index for index, item in enumerate(items) if isinstance(item, ParityItem)]
    ours = [item for item in items if isinstance(item, ParityItem)]
    models = list(dict.fromkeys(item.model for item in ours))
    for index, item in zip(places, sorted(ours, key=lambda item: models.index(item.model)), strict=True):
        items[index] = item


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Let the other tests run beside a case file that cannot be read: it fails the run, it need not stop it."""
    unreadable = session.config.stash[SESSION].unreadable
    if unreadable and unreadable == session.testsfailed:
        session.config.option.continue_on_collection_errors = True


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, Any] | None:
    """`partly checked` is a word of its own: what was not seen is not a pass."""
    if report.passed and report.when == "call" and (OUTCOME_KEY, PARTLY) in report.user_properties:
        return PARTLY, "~", (PARTLY.upper(), {"yellow": True})
    return None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    parity = session.config.stash.get(SESSION, None)
    if parity is None:
        return
    tally = parity.finish()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # an xdist worker: the controller tells
        output["tokenparity"] = {"engines": tally.engines, "written": tally.written, "case_files": tally.case_files}
    elif exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        parity.find_orphans()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """xdist: a worker has ended; take what it did."""
    sent = getattr(node, "workeroutput", {}).get("tokenparity")
    if sent:
        node.config.stash[SESSION].tally.add(sent)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    session = terminalreporter.config.stash[SESSION]
    if session.config_path is None and not (session.updating or session.pruning):
        return
    from .summary import write_summary

    write_summary(terminalreporter, session)


@pytest.fixture
def tokenparity(request: pytest.FixtureRequest) -> TokenParity:
    """Golden token IDs for IDs that the test made itself, and the configured engines (pytest-tokenparity)."""
    from .fixture import TokenParity, forget_properties

    forget_properties(request.node)
    return TokenParity(request.node, request.config.stash[SESSION])


def _config_path(config: pytest.Config) -> Path | None:
    named = config.getini("tokenparity_config")
    if named:
        base = config.inipath.parent if config.inipath else config.rootpath
        return base / str(named)
    return find_config(config.invocation_params.dir, config.rootpath)


def _register_markers(config: pytest.Config, session: ParitySession) -> None:
    """A plain marker for each model, before collection: strict markers ask for it."""
    if session.config_path is None:
        return
    from .config import readable_markers
    from .errors import ConfigError

    registered = _registered(config)
    if session.config is not None:
        markers = {
            model.marker: model.places.get("marker", model.places[""]) for model in session.config.models.values()
        }
        for marker, place in markers.items():
            if marker in registered:
                session.config_error = ConfigError(
                    f"{place}: the marker {marker!r} is registered already, by this project or another plugin; "
                    "set another with `marker:`"
                )
                session.config = None
    else:
        markers = dict.fromkeys(readable_markers(session.config_path), "")
    for marker in markers:
        if marker not in registered:
            config.addinivalue_line("markers", f"{marker}: items of one model (pytest-tokenparity)")


def _registered(config: pytest.Config) -> set[str]:
    lines: list[str] = config.getini("markers")
    return {line.partition(":")[0].partition("(")[0].strip() for line in lines}


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, a number of at least 0, found {text!r}")
    return value
