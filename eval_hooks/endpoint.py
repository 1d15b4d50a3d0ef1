"""Answers from an OpenAI-compatible server: vLLM, `transformers serve`, a hosted model."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import httpx
import numpy as np
from PIL import Image

from models.generation import Completion
from tasks.contract import Message

logger = logging.getLogger(__name__)

RETRIED = frozenset({408, 409, 425, 429})
"""Statuses that may pass, beside all of 500 and above."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Of the back-off between tries, which doubles."""
REFUSED_PROMPT = (400, 413, 422)
"""Statuses that may be of one prompt alone: its image, a filter of contents."""
FEWEST_FAILED = 3
"""Prompts in a row without an answer before asking is given up; twice as many as are asked at once, if that is more."""
SHOWN_CHARACTERS = 300
"""Of what a server says when it refuses."""


class EndpointError(RuntimeError):
    """The server refuses what it is asked, so that asking on makes no sense."""


class Prompt(NamedTuple):
    """One request."""

    messages: list[Message]
    images: list[np.ndarray]
    """RGB, uint8 (height, width, 3), in the order of the messages' image parts."""
    max_tokens: int | None
    """Of the completion; None: the server's own limit."""
    fields: Mapping[str, Any] = {}
    """Further ones, of this request alone."""


@dataclass(frozen=True)
class Endpoint:
    """A server and how it may be used."""

    url: str
    """Up to /v1."""
    model: str
    concurrency: int = 8
    """Requests at once."""
    timeout_s: float = 300.0
    """Of one try."""
    retries: int = 6
    """Tries after the first."""
    max_requests: int | None = None
    """Tries in all."""
    max_total_tokens: int | None = None
    """Prompt and completion tokens in all, as the server counts them; those under way when it is passed still end."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable of the key; it may be unset."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, such as reasoning_effort; temperature and seed among them. One that is None is
    left out, for servers that refuse it."""


@dataclass
class Usage:
    """What has been asked so far."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    """What went wrong with a try -> how often."""
    unanswered: int = 0
    """Prompts without an answer after all tries, or with the budget used up."""
    failed_in_a_row: int = 0
    """Prompts without an answer since the last answer came."""
    last_words: str = ""
    """What a server said when it refused one prompt."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def describe(self) -> str:
        told = f"{self.requests:,} requests, {self.prompt_tokens:,} + {self.completion_tokens:,} tokens"
        if self.troubles:
            told += "; troubles: " + ", ".join(f"{name} {count}" for name, count in self.troubles.most_common())
        return f"{told}; unanswered: {self.unanswered}" if self.unanswered else told


def request_body(endpoint: Endpoint, prompt: Prompt) -> dict[str, Any]:
    """The request's JSON: images are data URLs of PNG, bit for bit what the model would see in this process."""
    images = iter(prompt.images)
    messages = [
        {"role": message["role"], "content": [_part(part, images) for part in message["content"]]}
        for message in prompt.messages
    ]
    limit = {} if prompt.max_tokens is None else {"max_tokens": prompt.max_tokens}
    fields = {**limit, **endpoint.extra, **prompt.fields}
    asked = {name: value for name, value in fields.items() if value is not None}
    return {"model": endpoint.model, "messages": messages, **asked}


def _part(part: Mapping[str, Any], images: Iterator[np.ndarray]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    buffer = io.BytesIO()
    Image.fromarray(next(images)).save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}


def ask(
    endpoint: Endpoint,
    count: int,
    prompt: Callable[[int], Prompt],
    deliver: Callable[[int, Completion], None],
    usage: Usage | None = None,
) -> Usage:
    """Ask `count` prompts, several at once, and hand on each answer as it comes.

    Args:
        prompt: makes one of them, by its number; called when its turn comes.
        deliver: takes a number and its answer.

    Returns:
        What was asked, and what went wrong on the way.

    Raises:
        EndpointError: the server refuses for good (a wrong key, an unknown model), or one prompt after the other has no
            answer.
    """
    usage = usage or Usage()
    try:
        asyncio.run(_ask_all(endpoint, count, prompt, deliver, usage))
    except BaseExceptionGroup as several:  # of the tasks that shared the work
        raise several.exceptions[0] from None
    return usage


async def _ask_all(
    endpoint: Endpoint,
    count: int,
    prompt: Callable[[int], Prompt],
    deliver: Callable[[int, Completion], None],
    usage: Usage,
) -> None:
    key = _key(endpoint)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = httpx.Limits(max_connections=endpoint.concurrency)
    turns = iter(range(count))

    async with httpx.AsyncClient(headers=headers, timeout=endpoint.timeout_s, limits=limits) as client:

        async def work() -> None:
            for number in turns:  # shared: each takes the next
                answer = await _answered(client, endpoint, partial(prompt, number), usage)
                if answer is not None:
                    usage.failed_in_a_row = 0
                    deliver(number, answer)
                    continue
                usage.unanswered += 1
                if not _used_up(endpoint, usage):
                    usage.failed_in_a_row += 1
                    if usage.failed_in_a_row >= max(FEWEST_FAILED, 2 * endpoint.concurrency):
                        raise EndpointError(_no_answers(endpoint, usage))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(endpoint.concurrency, count)):
                group.create_task(work())


async def _answered(
    client: httpx.AsyncClient, endpoint: Endpoint, prompt: Callable[[], Prompt], usage: Usage
) -> Completion | None:
    """None where no try succeeded, or the budget is used up."""
    body = ""
    for attempt in range(endpoint.retries + 1):
        if _used_up(endpoint, usage):
            usage.troubles["budget used up"] += 1
            return None
        body = body or json.dumps(request_body(endpoint, prompt()))  # drawn only where it is asked
        usage.requests += 1
        started = time.monotonic()
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt) * random.uniform(0.5, 1.0)
        try:
            async with asyncio.timeout(endpoint.timeout_s):  # the client's own is of each wait for a few more bytes
                response = await client.post(
                    f"{endpoint.url.rstrip('/')}/chat/completions",
                    content=body,
                    headers={"Content-Type": "application/json"},
                )
        except (TimeoutError, httpx.TimeoutException):
            trouble = "timeout"
        except httpx.HTTPError as error:
            trouble = type(error).__name__
        else:
            if response.is_success:
                completion = _completion(response, time.monotonic() - started, usage)
                if isinstance(completion, Completion):
                    return completion
                trouble = completion
            elif response.status_code in RETRIED or response.status_code >= 500:
                trouble = f"status {response.status_code}"
                wait_s = max(wait_s, _asked_to_wait(response))
            elif response.status_code in REFUSED_PROMPT:
                usage.troubles[f"status {response.status_code}"] += 1
                usage.last_words = _refused(endpoint, response)
                return None
            else:
                raise EndpointError(_refused(endpoint, response))
        usage.troubles[trouble] += 1
        if attempt < endpoint.retries:
            logger.debug("%s; again in %.1f s", trouble, wait_s)
            await asyncio.sleep(wait_s)
    return None


def _used_up(endpoint: Endpoint, usage: Usage) -> bool:
    return (endpoint.max_requests is not None and usage.requests >= endpoint.max_requests) or (
        endpoint.max_total_tokens is not None and usage.tokens >= endpoint.max_total_tokens
    )


def _completion(response: httpx.Response, seconds: float, usage: Usage) -> Completion | str:
    """What an answer says; a few words where it is none."""
    if "json" not in response.headers.get("content-type", ""):
        return "content type"
    try:
        answer = response.json()
        choice = answer["choices"][0]
        reason = choice.get("finish_reason")
        text = _text(choice["message"], reason)
        told = answer.get("usage") or {}
        counts = [max(0, int(told.get(f"{kind}_tokens") or 0)) for kind in ("prompt", "completion")]
    except (ValueError, OverflowError, RecursionError):
        return "damaged JSON"
    except (KeyError, IndexError, TypeError, AttributeError):
        return "no choice"
    usage.prompt_tokens += counts[0]  # paid for, whatever has come
    usage.completion_tokens += counts[1]
    if text is None:
        return "no text"
    return Completion(text, "length" if reason == "length" else "stop", counts[1], seconds)


def _text(message: Mapping[str, Any], reason: object) -> str | None:
    """What a model has said; a refusal is said, too, and nothing is said by one that has thought, or was stopped, until
    there was no more: asked again, it would do so again. None where it must have been more."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") in ("text", "output_text"))
    if content is None:
        content = message.get("refusal")
    if content is None and reason in ("length", "content_filter", "tool_calls", "function_call"):
        return ""
    return content if isinstance(content, str) else None


def _key(endpoint: Endpoint) -> str:
    """The key without blanks around it; empty if there is none.

    Raises:
        EndpointError: it cannot be sent.
    """
    key = os.environ.get(endpoint.key_variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise EndpointError(
            f"{endpoint.key_variable}: got characters that no key has; allowed are printable ASCII characters; export "
            "it anew"
        )
    return key


def _no_answers(endpoint: Endpoint, usage: Usage) -> str:
    troubles = ", ".join(f"{name} {count}" for name, count in usage.troubles.most_common())
    return usage.last_words or (
        f"endpoint: got no answer to {usage.failed_in_a_row} prompts in a row from {endpoint.url} ({troubles}); "
        "allowed is a server that answers chat completions with images; look at it, then run the same command again"
    )


def _asked_to_wait(response: httpx.Response) -> float:
    """Seconds that the server asks for; 0 where it does not, or not in seconds."""
    try:
        return min(LONGEST_WAIT_S, max(0.0, float(response.headers.get("retry-after", 0))))
    except ValueError:
        return 0.0


def _refused(endpoint: Endpoint, response: httpx.Response) -> str:
    key = _key(endpoint)
    said = response.text.replace(key, "...") if key else response.text  # servers repeat keys that they do not know
    said = said[:SHOWN_CHARACTERS]  # after that: half a key would not be found
    advice = {
        401: f"export {endpoint.key_variable} with a valid key",
        403: f"export {endpoint.key_variable} with a key that may use this model",
        404: "correct endpoint= (it ends in /v1) or endpoint_model=",
    }.get(response.status_code, "correct the request: the model, the fields of endpoint.extra, the size of the images")
    return (
        f"endpoint: got status {response.status_code} from {endpoint.url} for model {endpoint.model}: {said!r}; "
        f"allowed is a server that answers chat completions with images; {advice}"
    )
