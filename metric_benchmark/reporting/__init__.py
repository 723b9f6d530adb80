# SPDX-License-Identifier: Apache-2.0
"""Reports from records: tables, pictures, HTML, Markdown and CSV, the gate of `check`, the comparison of two runs."""
