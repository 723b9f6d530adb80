# SPDX-License-Identifier: Apache-2.0
"""Fast counts for replicates: how many items (or mutants) each subset reaches, with one bit per subset.

A task is a row of 64-bit words that holds, subset by subset, whether the task is a member. What an item
reaches is the OR of its owners' rows; counting the set bits of many such rows subset by subset is done by a
carry-save adder over whole rows. Several replicates lie side by side in one row, which spares most of NumPy's
cost per call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_BUFFER_BYTES = 1 << 19
_MAX_SIDE_BY_SIDE = 25


@dataclass(frozen=True)
class Owners:
    """Which tasks own each column of a matrix, most owned columns first; columns without an owner are left out.

    Attributes:
        turns: `turns[j][i]` is the j-th owner of column `columns[i]`; later turns are shorter.
        columns: column numbers.
        n_columns: of the whole matrix.
    """

    turns: tuple[Ints, ...]
    columns: Ints
    n_columns: int

    @classmethod
    def of(cls, matrix: Bools) -> Owners:
        """Lists the owners of a T x n matrix."""
        columns, tasks = np.nonzero(matrix.T)
        present, starts, counts = np.unique(columns, return_index=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        starts, counts = starts[order], counts[order]
        turns = tuple(
            tasks[starts[: int((counts > turn).sum())] + turn].astype(np.int64)
            for turn in range(int(counts.max(initial=0)))
        )
        return cls(turns, present[order].astype(np.int64), matrix.shape[1])


class SubsetBits:
    """Membership of K subsets in T tasks, packed: one row of words per task."""

    def __init__(self, membership: Bools) -> None:
        self.n_subsets, self.n_tasks = membership.shape
        self.n_words = max(1, -(-self.n_subsets // 64))
        padded = np.zeros((self.n_tasks, self.n_words * 64), dtype=bool)
        padded[:, : self.n_subsets] = membership.T
        self.rows: Words = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)

    def side_by_side(self, owners: Owners) -> int:
        """How many replicates to lay side by side for these owners."""
        bytes_each = 8 * self.n_words * max(len(owners.columns), 1)
        return int(np.clip(_BUFFER_BYTES // bytes_each, 1, _MAX_SIDE_BY_SIDE))

    def reassigned(self, assignment: Ints) -> Words:
        """Returns the rows after tasks were dealt out anew.

        Args:
            assignment: R x T; in replicate r, slot t of the suite is filled by task `assignment[r, t]`.

        Returns:
            T x R x W: for each task, the subsets that hold a slot filled by it (none where no slot is).
        """
        n_replicates, n_tasks = assignment.shape
        replicate: Ints = np.arange(n_replicates, dtype=np.int64)
        key: Ints = (assignment * n_replicates + replicate[:, None]).ravel()
        order = np.argsort(key, kind="stable")
        slots: Ints = np.tile(np.arange(n_tasks, dtype=np.int64), n_replicates)[order]
        present, starts = np.unique(key[order], return_index=True)
        rows = np.zeros((n_tasks * n_replicates, self.n_words), dtype=np.uint64)
        gathered = self.rows.take(slots, axis=0)
        rows[present] = np.bitwise_or.reduceat(gathered, starts, axis=0)
        return rows.reshape(n_tasks, n_replicates, self.n_words)

    def permuted(self, assignment: Ints) -> Words:
        """Returns `reassigned` for permutations, where every task fills exactly one slot."""
        n_replicates, n_tasks = assignment.shape
        slot_of = np.empty((n_tasks, n_replicates), dtype=np.int64)
        slots: Ints = np.arange(n_tasks, dtype=np.int64)
        np.put_along_axis(slot_of, assignment.T, slots[:, None], axis=0)
        return self.rows.take(slot_of, axis=0)

    def counts(self, planes: list[Words]) -> Ints:
        """Reads counters out: R x K from bit planes of shape R x W."""
        total = np.zeros((len(planes[0]) if planes else 0, self.n_subsets), dtype=np.int64)
        for power, plane in enumerate(planes):
            bits = np.unpackbits(np.ascontiguousarray(plane).view(np.uint8), axis=1, bitorder="little")
            total += bits[:, : self.n_subsets].astype(np.int64) << power
        return total


def reached(rows: Words, owners: Owners) -> Words:
    """Returns what each column with an owner reaches: n x R x W, the OR of its owners' rows."""
    n_tasks, n_replicates, n_words = rows.shape
    flat = rows.reshape(n_tasks, n_replicates * n_words)
    out = np.empty((len(owners.columns), flat.shape[1]), dtype=np.uint64)
    taken = np.empty_like(out)
    for turn, tasks in enumerate(owners.turns):
        # `clip` lets NumPy write where it is told to without a copy in between; the indices are in range.
        n = len(tasks)
        np.take(flat, tasks, axis=0, out=taken[:n] if turn else out[:n], mode="clip")
        if turn:
            np.bitwise_or(out[:n], taken[:n], out=out[:n])
    return out.reshape(len(owners.columns), n_replicates, n_words)


def add_bits(rows: Words) -> list[Words]:
    """Counts set bits down the first axis: returns bit planes, plane j standing for 2**j. Overwrites `rows`.

    Carry-save addition: three rows of one weight become a row of that weight and one of twice the weight.
    """
    if not len(rows):
        return [np.zeros(rows.shape[1:], dtype=np.uint64)]
    planes: list[Words] = []
    current = rows
    while True:
        carries = np.empty((len(current) // 2, *current.shape[1:]), dtype=np.uint64)
        n_carries = 0
        while len(current) > 2:
            third = len(current) // 3
            # The sums replace c, so that what is left over follows them without a copy.
            a, b, c = current[:third], current[third : 2 * third], current[2 * third : 3 * third]
            carry = carries[n_carries : n_carries + third]
            np.bitwise_and(a, b, out=carry)
            np.bitwise_xor(a, b, out=a)
            np.bitwise_and(a, c, out=b)
            np.bitwise_or(carry, b, out=carry)
            np.bitwise_xor(a, c, out=c)
            n_carries += third
            current = current[2 * third :]
        if len(current) == 2:
            np.bitwise_and(current[0], current[1], out=carries[n_carries])
            n_carries += 1
            current = current[:1] ^ current[1:]
        planes.append(current[0])
        if not n_carries:
            return planes
        current = carries[:n_carries]
