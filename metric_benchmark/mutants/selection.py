# SPDX-License-Identifier: Apache-2.0
"""Picks every nth action, of all or of those that run certain commands."""

from __future__ import annotations

from collections.abc import Collection

from metric_benchmark.mutants.shell import command_names


class EveryNth:
    """Counts the actions that match and tells which are due.

    Args:
        every: 1 for every one, 2 for the second, fourth, sixth...
        commands: names of commands, one of which an action must run to count; empty for all actions.
    """

    def __init__(self, every: int, commands: Collection[str] = ()) -> None:
        self._every = every
        self._commands = frozenset(commands)
        self._matching = 0

    def takes(self, command: str) -> bool:
        """Counts an action and tells whether it is due."""
        if self._commands and self._commands.isdisjoint(command_names(command)):
            return False
        self._matching += 1
        return self._matching % self._every == 0
