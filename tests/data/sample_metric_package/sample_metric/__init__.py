# SPDX-License-Identifier: Apache-2.0
"""A sample package with one metric."""
