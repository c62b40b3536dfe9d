"""Other configurations that keep their goldens in the same folder: what they declare is no orphan of this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .cases import load_case_file
from .config import Config, load_config
from .errors import ConfigError

_NAME = "tokenparity.yaml"
_PASSED_OVER = frozenset({"node_modules", "site-packages", "__pycache__"})


class Neighbours:
    """The configurations around a golden folder, looked for when they are first asked about."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._others: list[Path] | None = None

    def declare(self, file: str, case: str, model: str) -> bool:
        """Whether another configuration has that case for that model, or cannot be read."""
        if self._others is None:
            self._others = [path for path in self._found() if path != self._config.path]
        return any(self._declares(path, file, case, model) for path in self._others)

    def _declares(self, path: Path, file: str, case: str, model: str) -> bool:
        try:
            if not (path.parent / file).is_file():
                return False
            config = load_config(path)
            if config.golden_dir != self._config.golden_dir:
                return False
            cases = load_case_file(path.parent / file, config).cases
        except (ConfigError, OSError, ValueError):  # broken: nobody knows what it declares
            return True
        return any(it.name == case and model in it.models for it in cases)

    def _found(self) -> Iterator[Path]:
        """Configurations in the folders above the goldens, and in those beside them."""
        above = self._config.golden_dir.parents
        yield from (folder / _NAME for folder in above if (folder / _NAME).is_file())
        for folder, folders, files in os.walk(above[0]):
            if _NAME in files and Path(folder) != above[0]:
                yield Path(folder) / _NAME
            folders[:] = [
                name
                for name in folders
                if not name.startswith(".")
                and name not in _PASSED_OVER
                and Path(folder, name) != self._config.golden_dir
                and not Path(folder, name, "pyvenv.cfg").is_file()
            ]
