# SPDX-License-Identifier: Apache-2.0
"""error_blindness: failures look like successes that print nothing."""

from __future__ import annotations

from typing import override

from metric_benchmark.mutants.operator import Call, NoParams, Observation, Operator

_SILENT_SUCCESS = Observation(stdout="", stderr="", return_code=0)


class ErrorBlindness(Operator[NoParams]):
    """Shows a failed action as a success without output."""

    name = "error_blindness"
    family = "observation"
    fault = "swallowed errors: a failed action looks like a success that printed nothing"
    needs = "observations"
    params_model = NoParams

    @override
    def after_exec(self, call: Call, seen: Observation) -> Observation:
        if seen.return_code == 0:
            return seen
        self.fire(call.number, f"hid exit code {seen.return_code}")
        return _SILENT_SUCCESS
