# SPDX-License-Identifier: Apache-2.0
"""One mutation operator per file; `metric_benchmark.mutants.catalog` lists them."""
