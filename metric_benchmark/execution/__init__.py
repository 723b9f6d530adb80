# SPDX-License-Identifier: Apache-2.0
"""Stage 1, raw results: plan what is missing, run it with Harbor in a child process, classify every trial."""
