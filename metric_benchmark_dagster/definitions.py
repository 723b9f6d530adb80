# SPDX-License-Identifier: Apache-2.0
"""What a Dagster host loads: `defs`, made by `build_defs`; the environment names experiment and settings."""

import os

from metric_benchmark_dagster.build import build_defs
from metric_benchmark_dagster.home import (
    DEFAULT_EXPERIMENT,
    DEFAULT_OUTPUT,
    EXPERIMENT_VARIABLE,
    OUTPUT_VARIABLE,
    PREFIX_VARIABLE,
    RUN_ID_VARIABLE,
    read_nightly,
    read_on_failure,
)

__all__ = ["build_defs", "defs"]

defs = build_defs(
    experiment=os.environ.get(EXPERIMENT_VARIABLE) or DEFAULT_EXPERIMENT,
    output=os.environ.get(OUTPUT_VARIABLE) or DEFAULT_OUTPUT,
    run_id=os.environ.get(RUN_ID_VARIABLE) or None,
    key_prefix=os.environ.get(PREFIX_VARIABLE, "").split(),
    nightly=read_nightly(os.environ),
    on_failure=read_on_failure(os.environ),
)
