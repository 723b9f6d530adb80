# SPDX-License-Identifier: Apache-2.0
"""A model on loopback that speaks OpenAI's chat completions; its answers are scripted, and it can refuse to answer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Tokens every answer says it took, so that costs can be worked out by hand.
PROMPT_TOKENS, COMPLETION_TOKENS = 1000, 100


@dataclass
class ScriptedModel:
    """What the server was asked, and what it is to do.

    Attributes:
        n_refusals: how many of the next requests are refused with status 429.
        requests: bodies of the requests that were answered.
        keys: credentials they came with.
    """

    url: str
    n_refusals: int = 0
    n_refused: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_refused(self) -> bool:
        with self.lock:
            if self.n_refusals == 0:
                return False
            self.n_refusals -= 1
            self.n_refused += 1
            return True


def answer(messages: list[dict[str, Any]]) -> str:
    """Does the task in two turns, then says that it is done, and says so again when asked: as terminus-2 wants it."""
    turn = sum(message["role"] == "assistant" for message in messages)
    word = re.search(r"Write the word (\w+) to", _text(messages[0]))
    assert word, "the instruction is not in the first message"
    keys = [f"mkdir -p /app && echo {word.group(1)} > /app/draft\n", "mv /app/draft /app/out.txt\n"][turn : turn + 1]
    return json.dumps(
        {
            "analysis": f"turn {turn + 1}",
            "plan": "write, then move",
            "commands": [{"keystrokes": key, "duration": 0.3} for key in keys],
            "task_complete": turn >= 2,
        }
    )


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextmanager
def serve() -> Iterator[ScriptedModel]:
    """Serves on a free port of this machine."""
    model = ScriptedModel("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if model.is_refused():
                self.say(429, {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit"}})
                return
            model.requests.append(body)
            model.keys.add(self.headers["Authorization"].removeprefix("Bearer "))
            message = {"role": "assistant", "content": answer(body["messages"])}
            usage = {
                "prompt_tokens": PROMPT_TOKENS,
                "completion_tokens": COMPLETION_TOKENS,
                "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
            }
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.say(
                200,
                {
                    "id": f"chatcmpl-{len(model.requests)}", "object": "chat.completion", "created": 1,
                    "model": body["model"], "choices": [choice], "usage": usage,
                },
            )  # fmt: skip

        def say(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
