# SPDX-License-Identifier: Apache-2.0
"""Proves a case before it is scored: a harness that calls everything broken, or nothing, measures nothing."""

from metric_benchmark.proof.findings import Finding, Proof
from metric_benchmark.proof.prove import proof_root, prove

__all__ = ["Finding", "Proof", "proof_root", "prove"]
