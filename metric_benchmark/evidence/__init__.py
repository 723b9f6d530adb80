# SPDX-License-Identifier: Apache-2.0
"""The evidence root: layout, durable writes, locks, ledger, index and manifest, and the one reader of records."""
