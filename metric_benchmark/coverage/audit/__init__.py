# SPDX-License-Identifier: Apache-2.0
"""The audit specification of NeMo Eval Author: reading it, reading judgments, and deciding what a trace covers."""
