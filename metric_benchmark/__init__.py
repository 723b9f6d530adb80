# SPDX-License-Identifier: Apache-2.0
"""Metric Benchmark: does coverage of an agent-eval suite predict whether the suite catches a faulty agent?"""
