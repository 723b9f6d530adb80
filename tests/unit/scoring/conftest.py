# SPDX-License-Identifier: Apache-2.0
"""Property tests without a deadline per example: machines that run tests are shared."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
