"""pytest's hooks: options, ini, markers, header and summary. Imports nothing heavy: it is loaded in every run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .session import (
    ALIAS,
    ALIAS_IS_OURS,
    FAILED,
    OUTCOME_KEY,
    PARTLY,
    RECORD,
    SESSION,
    UNREACHABLE,
    ParitySession,
    Record,
    find_config,
    is_case_file,
    registered_markers,
)

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
    group.addoption(
        "--tokenparity-confirm",
        action="store_true",
        dest="tokenparity_confirm",
        default=False,
        help="make one real call of each server for each request, which generates one token, and compare its prompt with "
        "what was rendered",
    )
    group.addoption(
        "--tokenparity-table",
        action="store_true",
        dest="tokenparity_table",
        default=False,
        help="print a table at the end: every case through every engine, equal or why not",
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
    _check_patterns(config)
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
        self.config = config
        self.crash_line_alone = config.getoption("tbstyle", "auto") == "line"
        self.rootpath = config.rootpath

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = Record.on(report) if report.failed else None
        if said is None or not said.checks or said.checks[-1][OUTCOME_KEY] not in (FAILED, UNREACHABLE):
            return
        from .failure import FailureText

        crash = getattr(report.longrepr, "reprcrash", None)
        plain = isinstance(report.longrepr, str) and not isinstance(report.longrepr, FailureText)
        if plain or getattr(crash, "message", "").startswith("Failed: "):
            path, line, _ = report.location
            shown, number = said.at or (os.path.relpath(self.rootpath / path), (line or 0) + 1)
            report.longrepr = FailureText.of_text(str(report.longrepr), shown, number, self.crash_line_alone)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        path = self.rootpath / report.nodeid.partition("::")[0]
        if report.failed and type(report.longrepr) is str and is_case_file(self.config, path):
            from .failure import FailureText

            report.longrepr = FailureText.of_text(report.longrepr, os.path.relpath(path), 1, False)


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
    if not is_case_file(parent.config, file_path):
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


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if items and (tally := items[0].config.stash[SESSION].tally).case_files:
        from .collection import ParityItem

        tally.deselected += sum(isinstance(item, ParityItem) for item in items)


def pytest_collection_finish(session: pytest.Session) -> None:
    tally = session.config.stash[SESSION].tally
    tally.tests = len(session.items)
    if tally.case_files:
        from .collection import ParityItem

        tally.selected = sum(isinstance(item, ParityItem) for item in session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Let the other tests run beside a case file that cannot be read: it fails the run, it need not stop it."""
    parity = session.config.stash[SESSION]
    if parity.unreadable and parity.unreadable == session.testsfailed:
        session.config.option.continue_on_collection_errors = True
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        parity.stopped = "errors during collection stopped the run"
        return
    # A worker is given its items one by one: there the processes themselves run side by side.
    if parity.tally.selected and not (session.config.option.collectonly or hasattr(session.config, "workerinput")):
        from .collection import ParityItem

        asked = [(item.case, item.model, item.engine) for item in session.items if isinstance(item, ParityItem)]
        parity.checker.plan(asked)


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, Any] | None:
    """`partly checked` is a word of its own: what was not seen is not a pass."""
    said = Record.on(report) if report.passed and report.when == "call" else None
    if said is not None and any(check[OUTCOME_KEY] == PARTLY for check in said.checks):
        return PARTLY, "~", (PARTLY.upper(), {"yellow": True})
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put on the report what the plugin says of the test. A test that asks for the fixture is one of ours unrun, too."""
    report = yield
    record = item.stash.get(RECORD, None)
    if record is None and "tokenparity" in getattr(item, "fixturenames", ()):
        record = Record()
    if record is not None:
        record.put_on(report)
        if report.skipped and "model" in record.about and isinstance(report.longrepr, tuple):
            path, line, _ = item.reportinfo()  # not the line of the plugin that skipped it
            report.longrepr = (os.fspath(path), (line or 0) + 1, report.longrepr[2])
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    parity = session.config.stash.get(SESSION, None)
    if parity is None:
        return
    tally = parity.finish()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # an xdist worker: the controller tells
        output["tokenparity"] = asdict(tally)
    else:
        parity.find_orphans(_why_not_looked(session, exitstatus))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """xdist: a worker has ended; take what it did."""
    sent = getattr(node, "workeroutput", {}).get("tokenparity")
    if sent:
        node.config.stash[SESSION].tally.add(sent)
        failed = getattr(node.config.pluginmanager.get_plugin("lfplugin"), "lastfailed", {})
        for key in [key for key in failed if str(key) in sent["forgotten"]]:
            del failed[key]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    session = terminalreporter.config.stash[SESSION]
    if session.config_path is None and not (session.updating or session.pruning):
        return
    from .summary import write_summary

    write_summary(terminalreporter, session)


@pytest.fixture
def tokenparity(request: pytest.FixtureRequest) -> TokenParity:
    """Golden token IDs for IDs that the test made itself, and the configured engines (pytest-tokenparity)."""
    from .fixture import TokenParity

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

    registered = registered_markers(config)
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


def _check_patterns(config: pytest.Config) -> None:
    """A pattern that cannot be matched would stop every test with a traceback."""
    found = ""
    try:
        patterns: list[str] = config.getini("tokenparity_files")
        for pattern in patterns:
            found = f" {pattern!r}"
            Path("a").match(pattern)
    except (ValueError, TypeError, pytest.UsageError) as error:
        raise pytest.UsageError(
            f"the ini option tokenparity_files takes patterns of file names, such as *.tokenparity.yaml:{found} {error}"
        ) from None


def _why_not_looked(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> str:
    """Why the goldens are left alone after a run that ended so; empty after one that came to its end."""
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    if exitstatus != pytest.ExitCode.INTERRUPTED:
        return f"the run ended early, with exit code {int(exitstatus)}"
    return session.config.stash[SESSION].stopped or "the run was interrupted"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, a number of at least 0, found {text!r}")
    return value
