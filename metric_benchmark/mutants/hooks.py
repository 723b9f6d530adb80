# SPDX-License-Identifier: Apache-2.0
"""The hook by which memory operators reach an agent's memory; an agent cooperates by having the method."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Forgetful(Protocol):
    """An agent that can be made to forget.

    Only the shape counts: an agent need not import this class. `forget` is called between two actions, on the
    agent's own event loop, just before it is given the newest observation, which it will still remember.
    """

    def forget(self, *, keep: int) -> None:
        """Drops all but the `keep` most recent observations the agent remembers; 0 drops all of them."""
        ...
