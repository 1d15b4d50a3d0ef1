"""Which puzzles a run sees: the puzzles of all parts in one order, posed when asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate

import numpy as np

from data_mix.dataset_source import dataset_source
from data_mix.photo_source import Use, photo_source
from data_mix.photos import PhotoSet
from data_mix.source import Posed, Source
from data_mix.streams import stream
from recipes.schema import Part, Recipe


class Mixture:
    """Posed puzzles by position, the same for every order of access, worker and rank."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        photos: PhotoSet | None,
        *,
        split: str,
        seed: int,
        use: Use = "distinct",
        min_piece_px: int | None = None,
        shuffle: bool = True,
        trained: frozenset[str] = frozenset(),
    ) -> None:
        """
        Args:
            parts: by name; each gives `count` puzzles.
            photos: None only if no part cuts a photo.
            split: train, eval or test.
            seed: the run's seed.
            use: distinct: puzzle i of a part gets the i-th photo of a permutation, whole. reuse: a random crop of any.
            min_piece_px: fewest source px of a piece's side; None: as many as the piece has.
            shuffle: mix the parts by a seeded permutation; False: part after part.
            trained: ids of photos whose dataset rows are left out, beside those of the other splits.

        Raises:
            ValueError: a part has too few photos that are large enough, or a dataset that does not serve; all such
                parts are told.
        """
        self.split = split
        pool = photos.split(split) if photos else ()
        splits = photos.splits if photos else {}
        # A photo may be held out or trained on, never both.
        foreign = trained.union(id_ for id_, other in splits.items() if (other == "train") != (split == "train"))
        self._sources: list[Source] = []
        problems = []
        for name, part in parts.items():
            try:
                if part.dataset is not None:
                    source: Source = dataset_source(name, part, split=split, foreign=foreign)
                else:
                    source = photo_source(name, parts, pool, split=split, seed=seed, use=use, min_piece_px=min_piece_px)
                self._sources.append(source)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        self._stops = list(accumulate(map(len, self._sources)))
        self._order = stream("mixture", split, seed).permutation(len(self)) if shuffle else None

    def __len__(self) -> int:
        return self._stops[-1] if self._stops else 0

    def __getitem__(self, position: int) -> Posed:
        """Pose the puzzle at a position; renders nothing."""
        if not 0 <= position < len(self):
            raise IndexError(f"got position {position}; allowed: 0 to {len(self) - 1}")
        place = int(position if self._order is None else self._order[position])
        at = bisect_right(self._stops, place)
        source = self._sources[at]
        return source.pose(place - (self._stops[at] - len(source)))

    def __iter__(self) -> Iterator[Posed]:
        return (self[position] for position in range(len(self)))

    def positions(self) -> dict[str, list[int]]:
        """By part where its puzzles are, in the part's own order."""
        order = np.arange(len(self)) if self._order is None else self._order
        places = np.empty(len(self), np.int64)
        places[order] = np.arange(len(self))
        starts = [0, *self._stops[:-1]]
        return {
            source.name: places[start:stop].tolist()
            for source, start, stop in zip(self._sources, starts, self._stops, strict=True)
        }

    def counts(self) -> dict[str, int]:
        """Puzzles by part."""
        return {source.name: len(source) for source in self._sources}

    def inputs(self) -> dict[str, str]:
        """By part a digest of the photos or rows that its puzzles are made of."""
        return {source.name: source.inputs() for source in self._sources}

    def summary(self) -> list[str]:
        """Lines for the log: what each part has, and what of its photos or rows is not used."""
        return [f"{self.split} part {source.name}: {source.summary()}" for source in self._sources]


def training_mixture(recipe: Recipe, photos: PhotoSet | None) -> Mixture:
    """The puzzles of one epoch, from photos of the train split and from datasets.

    Raises:
        ValueError: photos are too few or too small, or a dataset does not serve.
    """
    given = recipe.data.photos
    return Mixture(
        recipe.data.parts, photos, split="train", seed=recipe.seed, use=given.use, min_piece_px=given.min_piece_px
    )


def evaluation_mixture(recipe: Recipe, photos: PhotoSet | None, count: int) -> Mixture:
    """The first `count` held-out puzzles of every part that is evaluated, part after part.

    Raises:
        ValueError: photos are too few or too small, or a dataset does not serve.
    """
    return first_puzzles(recipe, photos, recipe.eval.split, count)


def first_puzzles(recipe: Recipe, photos: PhotoSet | None, split: str, count: int) -> Mixture:
    """The first `count` puzzles of every part, part after part; of train those that a run trains on, and no more.

    Raises:
        ValueError: photos are too few or too small, or a dataset does not serve.
    """
    given = recipe.data.photos
    parts = recipe.data.parts if split == "train" else evaluation_parts(recipe)
    counts = {name: min(count, part.count) if split == "train" else count for name, part in parts.items()}
    counted = {name: part.model_copy(update={"count": counts[name]}) for name, part in parts.items() if count}
    judged_rows = split != "train" and any(part.dataset for part in counted.values())
    return Mixture(
        counted, photos, split=split, seed=recipe.seed, use=given.use, min_piece_px=given.min_piece_px, shuffle=False,
        trained=_trained_ids(recipe) if judged_rows else frozenset(),
    )  # fmt: skip


def _trained_ids(recipe: Recipe) -> frozenset[str]:
    """Ids of the photos that the training parts' dataset rows show."""
    sources = [
        dataset_source(name, part, split="train", foreign=frozenset())
        for name, part in recipe.data.parts.items()
        if part.dataset is not None
    ]
    return frozenset().union(*(source.photo_ids() for source in sources))


def evaluation_parts(recipe: Recipe) -> dict[str, Part]:
    """`eval.parts`; where it is left out, the training parts but those with a dataset, whose rows are trained on."""
    return recipe.eval.parts or {name: part for name, part in recipe.data.parts.items() if part.dataset is None}
