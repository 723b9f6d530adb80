# SPDX-License-Identifier: Apache-2.0
"""Structure of a kill matrix: never-killed, trivial, duplicate and dominator mutants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class MutantStructure:
    """Flags by mutant (all of length M). `duplicate_of` is the first mutant with the same kills, or -1.

    Attributes:
        is_never_killed: no task kills it (here; that does not make it equivalent to the baseline).
        is_trivial: every task kills it.
        is_dominator: no other mutant's kills are a proper part of its kills, and it is the first of its
            duplicates.
        duplicate_of: index of the first mutant killed by exactly the same tasks, -1 for that first one
            itself.
    """

    is_never_killed: Bools
    is_trivial: Bools
    is_dominator: Bools
    duplicate_of: NDArray[np.int64]


def find_structure(kills: Bools) -> MutantStructure:
    """Flags the mutants of a kill matrix.

    Whoever kills all dominators kills every mutant that was killed at all, so scores over dominators do not
    count a fault several times (minimal mutants: Ammann, Delamaro & Offutt 2014).

    Args:
        kills: tasks x mutants; undetermined cells are False.
    """
    n_mutants = kills.shape[1]
    counts = kills.astype(np.float32)
    common = np.rint(counts.T @ counts).astype(np.int64)
    n_killers = np.diagonal(common)
    never = n_killers == 0
    # i's killers all kill j, too: |i and j| = |i|. Mutants never killed are part of everything and say
    # nothing.
    within = (common == n_killers[:, None]) & ~never[:, None] & ~never[None, :]
    proper_part = within & (n_killers[:, None] < n_killers[None, :])
    same = within & (n_killers[:, None] == n_killers[None, :])
    index = np.arange(n_mutants, dtype=np.int64)
    first: NDArray[np.int64] = np.where(same.any(axis=1), same.argmax(axis=1), index).astype(np.int64)
    is_first: Bools = first == index
    return MutantStructure(
        is_never_killed=never,
        is_trivial=kills.all(axis=0) & ~never,
        is_dominator=~never & ~proper_part.any(axis=0) & is_first,
        duplicate_of=np.where(is_first, -1, first).astype(np.int64),
    )
