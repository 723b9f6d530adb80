# SPDX-License-Identifier: Apache-2.0
"""Built-in metrics, one file each."""
