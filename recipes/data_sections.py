"""What a recipe may say under `data:`: photos, the parts of the mixture and their curriculum."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from recipes.section import Channel, Positive, PositiveInt, Section, Share


class SplitShares(Section):
    """Share of the photos' clusters each held-out split gets; train gets the rest."""

    eval: Share = 0.1
    test: Share = 0.1


class Photos(Section):
    folder: str | list[str] | None = None
    """Folder(s) of photos, searched recursively. None: the public-domain photos that scikit-image bundles."""
    index: str | None = None
    """File that keeps the photos' list and their splits. None: .cache/photos/ in the working folder."""
    use: Literal["distinct", "reuse"] = "distinct"
    """distinct: one photo serves at most one puzzle of a part, whole. reuse: random crops of any photo of the split."""
    min_piece_px: PositiveInt | None = None
    """Fewest source pixels a piece's side may have; a smaller photo is scaled up. None: nothing is scaled up."""
    ground: tuple[Channel, Channel, Channel] = (255, 255, 255)
    """RGB that a transparent photo is laid over."""
    shares: SplitShares = SplitShares()
    cache_mb: Annotated[int, Field(ge=0)] = 1024
    """Decoded and resized photos kept in memory per process, MiB."""


class Dataset(Section):
    """Examples that exist already, in the format of the `datasets` library; docs/datasets.md."""

    name: str
    """A local folder; where there is none, a name on the hub."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""
    split: str | None = None
    """The dataset's own split. None: the only one it has."""
    columns: dict[str, str] = {}
    """Our name -> the dataset's column: images, answer, messages, prompt, photo_id, and fields of the spec."""
    where: dict[str, str | bool | int | float] = {}
    """The dataset's column -> value: other rows are not used."""


class Part(Section):
    """One line of a mixture."""

    task: str
    """A name in tasks.TASKS."""
    spec: dict[str, Any] = {}
    """The kind of puzzle: fields of that task's Spec."""
    count: PositiveInt
    """Examples of this part in one epoch."""
    paired_with: str | None = None
    """Another part, whose photos and seeds this one takes: puzzle i of both differs in the spec alone."""
    dataset: Dataset | None = None
    """Where the examples are. None: they are posed, from photos or drawn."""


class Stage(Section):
    """A stretch of a run in which each part has the same share of every step."""

    shares: Annotated[dict[str, Positive], Field(min_length=1)]
    """{part: its share of a step's examples}, in any unit; a part that is not named is not trained on."""
    steps: PositiveInt | None = None
    """Optimizer steps after which the next stage begins."""
    until: Annotated[dict[str, Share], Field(min_length=1)] | None = None
    """{evaluated part: primary score}: the next stage begins when one evaluation has found all of these or more; in
    GRPO, when the last groups of these parts have. With `steps`: after so many at the latest."""


class Ladder(Section):
    """Parts from easy to hard, of which one is active: JigShape with fewer and fewer clues, for one."""

    parts: Annotated[list[str], Field(min_length=2)]
    """The first is active at the start. A part that is not named is not trained on."""
    up: Share = 0.8
    """Primary score of the active part at which the next one becomes active."""
    down: Share | None = None
    """Primary score of the active part below which the one before becomes active again. None: never."""
    replay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """Share of each step that the parts before the active one have together."""


class Adaptive(Section):
    """Each part's share follows how much its groups can teach: the mean spread of rewards within them."""

    floor: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Least share of a part, as a fraction of an equal share. 1: shares stay equal."""


class Groups(Section):
    """How a GRPO run's own groups decide a curriculum."""

    every: PositiveInt = 5
    """Optimizer steps between decisions."""
    window: PositiveInt = 32
    """Newest groups of a part that count. A score of fewer decides nothing."""


class Curriculum(Section):
    """Parts' shares that change over the run, by one of stages, ladder and adaptive; its number of steps stays."""

    stages: Annotated[dict[str, Stage], Field(min_length=1)] | None = None
    """In their order; the last one lasts to the end of the run."""
    ladder: Ladder | None = None
    """GRPO only."""
    adaptive: Adaptive | None = None
    """GRPO only."""
    groups: Groups = Groups()
    """GRPO only; elsewhere evaluations decide."""
    lag: PositiveInt = 8
    """Optimizer steps between a decision and the step from which it holds: more than are prepared ahead."""


class Data(Section):
    photos: Photos = Photos()
    parts: Annotated[dict[str, Part], Field(min_length=1)]
    curriculum: Curriculum | None = None
    """None: every example of every part once per epoch."""
    refill_tries: Annotated[int, Field(ge=0)] = 0
    """GRPO only: how often a step asks further puzzles of the same part in place of groups whose rewards are all equal,
    which teach nothing. 0: never."""
