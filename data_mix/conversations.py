"""Conversations as datasets write them, in the form of `tasks.contract.Message`."""

from __future__ import annotations

import json
from typing import Any

from tasks.contract import Message

IMAGE_MARK = "<image>"
"""Stands in a text where an image belongs."""

_ROLES = ("system", "user", "assistant")


class UnusableRow(ValueError):  # noqa: N818
    """A row that gives no example, and why."""


def as_messages(value: Any, num_images: int) -> list[Message]:
    """Turns with their images in place.

    Args:
        value: a list of {"role", "content"}, or its JSON text; content is a text, or a list of parts.
        num_images: images of the row. Without parts of type image they stand where the texts say <image>; without
            these either, all of them before the first user's text.

    Raises:
        UnusableRow: it is no such list, or does not have a place for every image.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise UnusableRow("messages that are no JSON") from None
    if not isinstance(value, list) or not value or not all(isinstance(turn, dict) for turn in value):
        raise UnusableRow("messages that are no list of turns")
    messages = [_turn(turn) for turn in value]
    if any(_has_surrogates(part.get("text", "")) for turn in messages for part in turn["content"]):
        raise UnusableRow("a text with half a character")
    if not _num_images(messages):
        for turn in messages:
            turn["content"] = [piece for part in turn["content"] for piece in _pieces(part["text"])]
    if not _num_images(messages):
        asking = next((turn for turn in messages if turn["role"] == "user"), None)
        if asking is not None:
            asking["content"][:0] = [{"type": "image"} for _ in range(num_images)]
    if _num_images(messages) != num_images:
        raise UnusableRow(f"{num_images} images for {_num_images(messages)} places in its messages")
    return messages


def without_reply(messages: list[Message]) -> tuple[list[Message], str | None]:
    """The turns before the assistant's last one, and its text; None where another turn stands last.

    Raises:
        UnusableRow: nothing is asked, or the reply holds an image.
    """
    asked, reply = (messages[:-1], messages[-1]) if messages[-1]["role"] == "assistant" else (messages, None)
    if not asked or asked[-1]["role"] != "user":
        raise UnusableRow("messages in which no user asks last")
    if reply is None:
        return asked, None
    if any(part["type"] == "image" for part in reply["content"]):
        raise UnusableRow("an image in the reply")
    return asked, "".join(part["text"] for part in reply["content"])


def asking(text: str, num_images: int) -> list[Message]:
    """One user's turn with its images in place."""
    return as_messages([{"role": "user", "content": text}], num_images)


def _turn(turn: dict[str, Any]) -> Message:
    role, content = turn.get("role"), turn.get("content")
    if role not in _ROLES:
        raise UnusableRow(f"a turn whose role is {role!r}, not one of {', '.join(_ROLES)}")
    if isinstance(content, str):
        return {"role": role, "content": [{"type": "text", "text": content}]}
    if not isinstance(content, list):
        raise UnusableRow("a turn whose content is neither a text nor a list of parts")
    return {"role": role, "content": [_part(part) for part in content]}


def _part(part: Any) -> dict[str, str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "image":
        return {"type": "image"}
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    raise UnusableRow(f"a part of type {kind!r}, not text or image")


def _pieces(text: str) -> list[dict[str, str]]:
    """A text cut at its image marks; the line breaks around a mark go with it."""
    texts = text.split(IMAGE_MARK)
    pieces: list[dict[str, str]] = []
    for at, piece in enumerate(texts):
        if at:
            pieces.append({"type": "image"})
        kept = piece.strip("\n") if len(texts) > 1 else piece
        if kept:
            pieces.append({"type": "text", "text": kept})
    return pieces


def _has_surrogates(text: str) -> bool:
    """Whether a text holds lone surrogates, which no tokenizer takes."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _num_images(messages: list[Message]) -> int:
    return sum(part["type"] == "image" for turn in messages for part in turn["content"])
