"""The fixture `tokenparity`: goldens for IDs that a test made itself, and the configured engines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from .cases import case_file_name
from .check import Outcome
from .collection import for_summary, properties, verbosity, vocabulary_of
from .config import check_name
from .engines.base import ids_of, token_ids
from .errors import ConfigError, EngineError, EngineUnreachable
from .findings import Problem, Unreachable
from .models import Model
from .report import Subject, failure
from .request import Conversation, Request, Tools
from .session import ParitySession, Record
from .words import brief
from .yaml12 import shown


class TokenParity:
    """What the fixture gives to a test function."""

    def __init__(self, node: pytest.Item, session: ParitySession) -> None:
        self._node = node
        self._session = session
        self._record = Record.of(node)
        self._record.forget(node)
        session.enter(node)

    def assert_golden(self, name: str, ids: Iterable[int], *, model: str) -> None:
        """Compare IDs with ``golden/<model>/<test file without .py>/<name>.json``; record them under an update flag.

        ``ids`` is a list of token IDs, or an array or tensor of one dimension. ``model`` is a configured one. The test
        fails where the golden is missing or has other IDs.
        """
        __tracebackhide__ = True
        try:
            config = self._session.usable()
            config.model(_text(model, "the model"))
            fault = check_name(_text(name, "the golden's name"), "the golden's name")
            if fault:
                raise ConfigError(fault)
            file = case_file_name(self._node.path, config)
            checked = token_ids(ids, "the test")
        except (ConfigError, EngineError) as error:
            raise self._ended(Outcome((Problem(str(error)),))) from None
        recorder = f"{file}::{self._node.name}"
        outcome = self._session.checker.check_ids(name, checked, model, file, file.removesuffix(".py"), recorder)
        if not outcome.findings:
            self._record.add(self._node, [("model", model), *properties(outcome)], **for_summary(outcome))
            return
        raise self._ended(outcome, model, f", golden {name!r}")

    def engine(self, model: str, name: str) -> FixtureEngine:
        """The configured engine ``name`` of ``model``: a TokenRenderer."""
        __tracebackhide__ = True
        try:
            self._session.usable()
            runtime = self._session.checker.model(_text(model, "the model"))
            runtime.engine(_text(name, "the engine"))
        except EngineUnreachable as error:  # an earlier test found that out
            raise self._unreachable(error, runtime, name) from None
        except (ConfigError, EngineError) as error:
            raise self._ended(Outcome((Problem(str(error)),))) from None
        return FixtureEngine(runtime, name, self)

    def _unreachable(self, error: EngineUnreachable, model: Model, name: str) -> BaseException:
        found = Unreachable(str(error), model.settings.engine(name).place, error.advice)
        return self._ended(Outcome((found,), unreachable=found.headline), model.settings.name)

    def _ended(self, outcome: Outcome, model: str | None = None, what: str = "") -> BaseException:
        """The exception that ends the test: a failure of a few lines, or a skip where that was asked for."""
        node = self._node
        about = [("model", model)] if model else []
        self._record.add(node, [*about, *properties(outcome)], **for_summary(outcome))
        line = _line_in(node.path) or (node.reportinfo()[1] or 0) + 1
        self._record.at = shown(node.path), line
        if outcome.unreachable is not None and self._session.skip_unreachable:
            return pytest.skip.Exception(outcome.unreachable)
        subject = Subject(
            engine="the test",
            at=f"{shown(node.path)}:{line}: {node.name}{what}",
            select=self._session.select(node.path, node.nodeid.partition("::")[2]),
            update_flag=self._session.update_flag,
            is_case=False,
        )
        vocabulary = vocabulary_of(self._session, model, outcome) if model else None
        lines = failure(outcome, subject, vocabulary, verbosity(node.config))
        return pytest.fail.Exception("\n".join(line.text for line in lines), pytrace=False)


class FixtureEngine:
    """A configured engine inside a test: one that cannot be asked fails or skips the test, in one line."""

    def __init__(self, model: Model, name: str, parity: TokenParity) -> None:
        self.name = name
        self._model = model
        self._parity = parity

    def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]:
        """The prompt's token IDs; RequestRefused if the engine refuses the request."""
        __tracebackhide__ = True
        try:
            _check_list(conversation, "the conversation", "messages")
            _check_list([] if tools is None else tools, "`tools`", "tool schemas")
            rendering = self._model.render(self.name, Request.of(conversation, tools, **template_kwargs))
            return ids_of(rendering, self.name)
        except EngineUnreachable as error:
            raise self._parity._unreachable(error, self._model, self.name) from None
        except EngineError as error:
            raise self._parity._ended(Outcome((Problem(str(error)),)), self._model.settings.name) from None


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a string, it is {type(value).__name__} {brief(value)}")
    return value


def _check_list(value: object, what: str, of: str) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in value):
        raise EngineError(f"{what} must be a list of {of}, it is {type(value).__name__} {brief(value)}")


def _line_in(path: Path) -> int | None:
    """The line of a test file that is being run: the innermost call out of it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and Path(frame.f_code.co_filename) != path:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else None
