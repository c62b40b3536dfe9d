"""The fixture `tokenparity`: goldens for IDs that a test made itself, and the configured engines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import pytest

from .cases import case_file_name
from .collection import properties, vocabulary_of
from .config import check_name
from .engines.base import Engine, token_ids
from .errors import ConfigError, EngineError, EngineUnreachable
from .report import Subject, failure
from .request import Conversation, Tools
from .session import OUTCOME_KEY, REASON_KEY, UNREACHABLE, ParitySession
from .yaml12 import shown


class TokenParity:
    """What the fixture gives to a test function."""

    def __init__(self, node: pytest.Item, session: ParitySession) -> None:
        self._node = node
        self._session = session

    def assert_golden(self, name: str, ids: Iterable[int], *, model: str) -> None:
        """Compare IDs with ``golden/<model>/<test file without .py>/<name>.json``; record them under an update flag.

        ``ids`` is a list of token IDs, or an array or tensor of one dimension. ``model`` is a configured one. The test
        fails where the golden is missing or has other IDs.
        """
        __tracebackhide__ = True
        try:
            config = self._session.usable()
            config.model(model)
            fault = check_name(name, "the golden's name")
            if fault:
                raise ConfigError(fault)
            file = case_file_name(self._node.path, config)
            checked = token_ids(ids, "the test")
        except (ConfigError, EngineError) as error:
            self._fail(str(error))
        test = self._node.name
        recorder = f"{file}::{test}"
        outcome = self._session.checker.check_ids(name, checked, model, file, file.removesuffix(".py"), recorder)
        self._node.user_properties += [("model", model), *properties(outcome)]
        if outcome.findings:
            line = (self._node.reportinfo()[1] or 0) + 1
            subject = Subject(
                engine="the test",
                at=f"{shown(self._node.path)}:{line}: {test}, golden {name!r}",
                select=self._session.select(self._node.path, self._node.nodeid.partition("::")[2]),
                update_flag=self._session.update_flag,
                is_case=False,
            )
            vocabulary = vocabulary_of(self._session, model, outcome)
            lines = failure(outcome, subject, vocabulary, self._node.config.get_verbosity())
            self._fail("\n".join(line.text for line in lines))

    def engine(self, model: str, name: str) -> FixtureEngine:
        """The configured engine ``name`` of ``model``: a TokenRenderer."""
        __tracebackhide__ = True
        try:
            self._session.usable()
            engine = self._session.checker.model(model).engine(name)
        except (ConfigError, EngineError) as error:
            self._fail(str(error))
        return FixtureEngine(engine, self)

    def _fail(self, message: str) -> NoReturn:
        __tracebackhide__ = True
        pytest.fail(message, pytrace=False)

    def _unreachable(self, message: str) -> NoReturn:
        """What the options say about an engine that cannot be reached, as for the items of case files."""
        __tracebackhide__ = True
        self._node.user_properties += [(OUTCOME_KEY, UNREACHABLE), (REASON_KEY, message)]
        if self._session.skip_unreachable:
            pytest.skip(message)
        self._fail(message)


class FixtureEngine:
    """A configured engine inside a test: one that cannot be asked fails or skips the test, in one line."""

    def __init__(self, engine: Engine, parity: TokenParity) -> None:
        self.name = engine.name
        self._engine = engine
        self._parity = parity

    def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]:
        """The prompt's token IDs; RequestRefused if the engine refuses the request."""
        __tracebackhide__ = True
        try:
            return self._engine.ids(conversation, tools, **template_kwargs)
        except EngineUnreachable as error:
            self._parity._unreachable(str(error))
        except EngineError as error:
            self._parity._fail(str(error))
