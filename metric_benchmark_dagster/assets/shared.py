# SPDX-License-Identifier: Apache-2.0
"""What assets of all stages have in common: owner, tags, and code versions."""

import functools

from metric_benchmark.pipeline import implementation

OWNERS = ["team:metric-benchmark"]

#: Raise by hand when trials that were paid for no longer mean what they did. A digest of the code would mark all of
#: them stale with every commit; what decides one variant's trials is in its config hash, which `variant_inputs` has.
RAW_RESULTS_PROTOCOL = "1"


def stage_tags(stage: str) -> dict[str, str]:
    """Tags of an asset: the stage it belongs to."""
    return {"metric_benchmark/stage": stage}


@functools.cache
def code_version(stage: str) -> str:
    """The version of a cheap asset's code: the digest of its stage's source."""
    return implementation(stage).stage_sha256[:16]
