"""A grammar spelled in tokens: what a model may write next, and what it need not be asked about."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from models.load import Encoder
from tasks.grammar import Grammar


class Vocabulary:
    """What each token writes, special tokens aside, in alphabetical order."""

    def __init__(self, text_of: dict[int, str]) -> None:
        pairs = sorted((text, token) for token, text in text_of.items() if text)
        self._texts = [text for text, _ in pairs]
        self._tokens = [token for _, token in pairs]
        self.longest = max(map(len, self._texts))

    def spelling(self, text: str) -> list[int]:
        """The tokens that write exactly this."""
        start, stop = bisect_left(self._texts, text), self._after(text)
        return self._tokens[start:stop]

    def continues(self, text: str) -> bool:
        """Whether some token writes this and more."""
        stop = self._after(text)
        return stop < len(self._texts) and self._texts[stop].startswith(text)

    def _after(self, text: str) -> int:
        return bisect_left(self._texts, text + "\0")


def vocabulary(encoder: Encoder) -> Vocabulary:
    """Of the encoder's tokenizer, without special tokens and those that stand for images or end a turn."""
    family, processor = encoder.family, encoder.processor
    barred = (*family.vision_token_ids(processor), *family.stop_token_ids(processor))
    return _vocabulary(processor.tokenizer, barred)


@lru_cache(maxsize=4)
def _vocabulary(tokenizer: Any, barred: tuple[int, ...]) -> Vocabulary:
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    tokens = sorted(set(range(len(tokenizer))) - special.union(barred))
    texts = tokenizer.batch_decode([[token] for token in tokens], clean_up_tokenization_spaces=False)
    return Vocabulary({token: text for token, text in zip(tokens, texts, strict=True) if "\ufffd" not in text})


@dataclass(frozen=True)
class Place:
    """Where a text stands in a grammar."""

    text: str
    ahead: tuple[str, ...]
    """What may follow, up to where the next stretch ends; none is empty."""
    complete: bool
    """Whether the answer may end here."""

    @property
    def next_characters(self) -> list[str]:
        return sorted({stretch[0] for stretch in self.ahead})


class Speller:
    """Walks a grammar, character by character, in the tokens of a vocabulary."""

    def __init__(self, encoder: Encoder, grammar: Grammar) -> None:
        self._tokenizer = encoder.processor.tokenizer
        self._vocabulary = vocabulary(encoder)
        self._grammar = grammar

    def start(self) -> Place:
        return self._arrive("", [""])

    def forced(self, place: Place) -> tuple[list[int], Place]:
        """The tokens that every answer has next, as the tokenizer writes them.

        They stop before any that could also cover the beginning of a choice (" tab" after a comma).
        """
        end = place
        while not end.complete and len(end.next_characters) == 1:
            end = self._step(end, end.next_characters[0])
        text = end.text[len(place.text) :]
        sure = self._sure(text, end.next_characters)
        encoded = self._tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
        )
        tokens, stop = [], 0
        for token, (_, token_stop) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            if token_stop > sure:
                break
            tokens.append(token)
            stop = token_stop
        return tokens, self._walk(place, text[:stop])

    def choices(self, place: Place) -> dict[int, Place]:
        """The tokens that may come next, and where each leads."""
        found: dict[int, Place] = {}
        paths = [("", place)]
        while paths:
            written, at = paths.pop()
            for character in at.next_characters:
                text = written + character
                tokens, continues = self._vocabulary.spelling(text), self._vocabulary.continues(text)
                if tokens or continues:
                    reached = self._step(at, character)
                    found.update(dict.fromkeys(tokens, reached))
                    if continues:
                        paths.append((text, reached))
        return found

    def _sure(self, text: str, next_characters: list[str]) -> int:
        """How much of a forced text no token shares with what may follow."""
        for start in range(max(0, len(text) - self._vocabulary.longest), len(text)):
            for character in next_characters:
                beyond = text[start:] + character
                if self._vocabulary.spelling(beyond) or self._vocabulary.continues(beyond):
                    return start
        return len(text)

    def _walk(self, place: Place, text: str) -> Place:
        for character in text:
            place = self._step(place, character)
        return place

    def _step(self, place: Place, character: str) -> Place:
        return self._arrive(place.text + character, [stretch[1:] for stretch in place.ahead if stretch[0] == character])

    def _arrive(self, text: str, rests: list[str]) -> Place:
        """After a text of which some stretches have these rests; an empty one has ended."""
        if "" not in rests:
            return Place(text, tuple(rests), complete=False)
        options = self._grammar.options(text)
        return Place(text, (*filter(None, rests), *options), complete=not options)
