# SPDX-License-Identifier: Apache-2.0
"""The Dagster shell of Metric Benchmark: assets around the library's stages, with no logic of its own."""
