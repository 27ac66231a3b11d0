"""What takes seconds to compile is brought in behind the work, and only where there is work enough for it."""

import importlib
import importlib.util
import sys
import threading
import warnings
from types import ModuleType

# Lookups that are made without it first. A program that asks a few questions never pays for compiling; one that
# asks many is a hundredth of a second old by then.
PATIENCE = 1_000


class Later:
    """A compiled module: another thread imports it once it was missed often enough, and nobody waits.

    It needs numba (`pip install 'attar[fast]'`); without it there is never one, and all is done without.
    """

    def __init__(self, name: str, patience: int = PATIENCE) -> None:
        self.module: ModuleType | None = None
        self._name, self._left = name, patience
        self._importing = threading.Lock()

    def missed(self, times: int = 1) -> ModuleType | None:
        """Say that it would have been used so many times; gives it where it has come meanwhile."""
        if self._left > 0:
            self._left -= times
            if self._left <= 0 and self.possible:
                # Not a daemon: a program that ends now waits for the compiler, which must not be cut off.
                threading.Thread(target=self.now, name=f"import {self._name}").start()
        return self.module

    def now(self) -> ModuleType | None:
        """Import it here and wait for it: for whoever measures, and for a server before its first question."""
        with self._importing:
            if self.module is None and self.possible:
                self._left = 0
                try:
                    self.module = importlib.import_module(self._name)
                except Exception as fault:  # a compiler may fail in many ways; without it all works, slower
                    reason = str(fault).strip().split("\n", 1)[0]
                    said = f"{self._name} could not be compiled, lookups are slower: {reason}"
                    warnings.warn(said, RuntimeWarning, stacklevel=2)
        return self.module

    @property
    def possible(self) -> bool:
        """Whether there is a compiler, and numbers lie in memory as they do in a file."""
        return sys.byteorder == "little" and importlib.util.find_spec("numba") is not None
