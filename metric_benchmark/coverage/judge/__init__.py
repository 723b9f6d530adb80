# SPDX-License-Identifier: Apache-2.0
"""A model as judge of traces: what it is asked, what it may answer, where its answers are kept."""
