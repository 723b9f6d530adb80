# SPDX-License-Identifier: Apache-2.0
"""The child process that talks to the model, as importing LiteLLM takes 10 s and LiteLLM prints.

Reads one order on stdin, `{options, questions: [{key, messages}]}`, and writes one line of JSON per answered question.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from metric_benchmark.coverage.judge.prompts import RESPONSE_FORMAT, Verdict, parse_verdict

Complete = Callable[..., Any]


def answer_question(
    question: dict[str, Any], options: dict[str, Any], complete: Complete, cost_of: Callable[[Any], float | None]
) -> dict[str, Any]:
    """Asks until the answer counts or the tries are used up; keeps all that was said."""
    messages = list(question["messages"])
    said: list[str] = []
    verdict: Verdict | str = "not asked"
    cost: float | None = 0.0
    for _ in range(options["tries"]):
        response = complete(
            model=options["model"],
            messages=messages,
            api_base=options["api_base"],
            temperature=options["temperature"],
            timeout=options["timeout_s"],
            max_tokens=options["max_answer_tokens"],
            response_format=RESPONSE_FORMAT,
            num_retries=options["network_retries"],
            drop_params=True,
        )
        one = cost_of(response)
        cost = None if one is None or cost is None else cost + one
        text = response.choices[0].message.content
        said.append(text if isinstance(text, str) else "")
        verdict = parse_verdict(text)
        if isinstance(verdict, Verdict):
            break
        messages = [
            *question["messages"],
            {"role": "assistant", "content": said[-1]},
            {"role": "user", "content": f"That was no valid answer ({verdict}). Answer with the JSON object only."},
        ]
    good = isinstance(verdict, Verdict)
    return {
        "key": question["key"],
        "answers": said,
        "verdict": verdict.model_dump() if isinstance(verdict, Verdict) else None,
        "invalid": None if good else verdict,
        "cost_usd": cost,
    }


def main() -> None:
    """Answers all questions, several at a time, each as soon as it is there."""
    reply_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order: dict[str, Any] = json.load(sys.stdin)

    import litellm

    # LiteLLM is only partly typed.
    api: Any = litellm

    def cost_of(response: Any) -> float | None:
        try:
            return float(api.completion_cost(completion_response=response))
        except Exception:  # noqa: BLE001 - a model LiteLLM has no price for
            return None

    lock = threading.Lock()

    def work(question: dict[str, Any]) -> None:
        try:
            reply = answer_question(question, order["options"], api.completion, cost_of)
        except Exception as error:  # noqa: BLE001 - network, account, model: the parent reports it
            reply = {"key": question["key"], "failed": f"{type(error).__name__}: {str(error)[:500]}"}
        with lock:
            reply_to.write(json.dumps(reply) + "\n")
            reply_to.flush()

    with reply_to, ThreadPoolExecutor(order["options"]["concurrency"]) as pool:
        list(pool.map(work, order["questions"]))


if __name__ == "__main__":
    main()
