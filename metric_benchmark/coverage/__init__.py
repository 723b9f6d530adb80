# SPDX-License-Identifier: Apache-2.0
"""Stage 3: how much of an agent each subset of tasks exercises, by any metric."""
