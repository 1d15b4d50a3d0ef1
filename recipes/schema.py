"""The whole recipe format, on one page. Field docstrings give meaning and unit.

What WE decide is here; `trainer:` goes verbatim to TRL's config class.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]
Channel = Annotated[int, Field(ge=0, le=255)]


class Section(BaseModel):
    """A mapping of a recipe: closed, immutable, without infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


# ---- model -------------------------------------------------------------------------------------


class Attention(Section):
    """Which attention each tower asks for; the family's adapter resolves it and says so in the log."""

    language: Literal["auto", "eager", "sdpa", "flash_attention_2"] = "auto"
    """auto: flash_attention_2 where the family allows it and it is installed, else sdpa."""
    vision: Literal["auto", "eager", "sdpa", "flash_attention_2"] = "auto"


class Scratch(Section):
    """Sizes of a small model of the family's real classes with random weights."""

    text_hidden: PositiveInt = 64
    text_layers: PositiveInt = 2
    vision_hidden: PositiveInt = 32
    vision_layers: PositiveInt = 2
    text_init_std: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation of the language tower's weights at the start; None: the library's own, 0.02."""
    vision_position_std: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation of the vision position embedding at the start; None: the library's own."""


class ImageSize(Section):
    """What the image processor may do to an image. Values, never class defaults, which are wrong."""

    min_px: PositiveInt | None = None
    """Qwen3-VL: fewest pixels (area) an image is scaled to."""
    max_px: PositiveInt | None = None
    """Qwen3-VL: most pixels (area) an image is scaled to."""
    side_px: PositiveInt | None = None
    """Gemma3: the square side that every image is squeezed to."""


class Architecture(Section):
    """Sizes of a pretrained model, as its config.json names them. Plans are made from them where that file is not at
    hand; where it is, a run whose model has others is refused."""

    text: dict[str, Any]
    vision: dict[str, Any]


class Model(Section):
    """A model file, recipes/models/NAME.yaml."""

    name: str
    family: Literal["qwen3_vl", "gemma3"]
    pretrained: str | None = None
    """Hub name or folder of the weights. Exactly one of pretrained and scratch is given."""
    revision: str | None = None
    architecture: Architecture | None = None
    """None: a plan needs the config.json of `pretrained`."""
    scratch: Scratch | None = None
    attention: Attention = Attention()
    image: ImageSize
    max_tokens: PositiveInt
    """Longest sequence (image, prompt and answer) the model is trained or asked on, tokens."""


# ---- data --------------------------------------------------------------------------------------


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


# ---- training and evaluation -------------------------------------------------------------------


class Lora(Section):
    """Low-rank adapters on the linear layers of every tower whose method is lora."""

    rank: PositiveInt = 16
    alpha: Annotated[float, Field(gt=0)] = 32
    dropout: Share = 0.0


class Tower(Section):
    """How one tower trains, where that is not what all else says."""

    method: Literal["full", "lora", "frozen"] | None = None
    """None: what train.method says. Beside a tower with lora only the projector may be full."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """At the top of the schedule, which all towers share. None: trainer.learning_rate."""
    targets: Annotated[list[str], Field(min_length=1)] | None = None
    """The linear layers that get adapters, by the last part of their names, where the method is lora.
    None: every linear layer of the tower."""


class Towers(Section):
    """The language model with its embeddings and head, the vision tower, and what projects one into the other."""

    language: Tower = Tower()
    vision: Tower = Tower()
    projector: Tower = Tower()


class InverseAccuracy(Section):
    """Loss weights 1 - accuracy: what a model can do already counts less."""

    accuracy: dict[str, Share] | None = None
    """{part: accuracy}, of every training part."""
    records: str | None = None
    """File of an evaluation's records, of parts with the names of the training parts: accuracy is the mean of the
    task's primary score, which is PA for jigshape."""
    adaptive: bool = False
    """Every evaluation of the run sets the accuracy of its parts anew, from the next step on. Without `accuracy` and
    `records`, all parts weigh the same until the first one."""


class Train(Section):
    method: Literal["full", "lora"] = "full"
    """full: every tower in full. lora: adapters on the language tower, the rest frozen."""
    lora: Lora = Lora()
    towers: Towers = Towers()
    """What differs from train.method."""
    effective_batch: PositiveInt = 64
    """Examples per optimizer step over all processes."""
    batching: Literal["plain", "balanced", "packed", "auto"] = "plain"
    """How a step's examples share forward passes. plain: micro_batch rows, padded; effective_batch must then be
    micro_batch x processes x a whole number. balanced: equal work for each process, in rows of like length, as many as
    max_pack_tokens allows. packed: equal work for each process, several examples in one row; not for gemma3. auto:
    packed where the model can be, else balanced."""
    micro_batch: PositiveInt = 1
    """Examples per forward pass and process, where batching is plain."""
    max_pack_tokens: PositiveInt | None = None
    """Most tokens per forward pass and process, padding included, where batching is not plain.
    None: model.max_tokens."""
    precision: Literal["bf16", "fp32"] = "bf16"
    """Compute precision. Trained weights and optimizer state are always fp32."""
    predictable_weight: Annotated[float, Field(ge=0)] = 1.0
    """Loss weight of answer tokens that the format makes predictable; informative tokens weigh 1."""
    weighting: Literal["equal", "inverse_accuracy"] = "equal"
    """What an example's tokens weigh besides: inverse_accuracy multiplies them by 1 - accuracy of its part. A step's
    loss is divided by its weight, so equal weights are no weights, and a weight of 0 leaves the example out."""
    inverse_accuracy: InverseAccuracy = InverseAccuracy()
    checkpoint_every: PositiveInt = 25
    """Steps between checkpoints, each of which is evaluated."""
    keep_checkpoints: PositiveInt | None = None
    """Newest checkpoints kept. None: all."""
    sharding: Literal["auto", "none", "ddp", "fsdp2", "zero2", "zero3"] = "auto"
    """What each of several processes holds. ddp: the whole model. fsdp2, zero3: its share of weights, gradients and
    optimizer state. zero2: all weights, its share of the rest. auto: ddp where the whole training state takes at most
    60 % of a GPU, else fsdp2; none on one process. zero2 and zero3 need the deepspeed package."""
    workers: Annotated[int, Field(ge=0)] = 2
    """Data loader processes per training process."""
    worst_batch_first: bool = False
    """Before the first step, take the run's longest micro-batch, and the one with the most operations, forward and
    backward, and drop the gradients: what does not fit shows at once, and no result changes. Not with zero2, zero3."""
    stall_timeout_s: PositiveInt | None = 3600
    """Seconds without a finished step or evaluation batch after which a process dumps its stacks and ends. None: never.
    """

    def methods(self) -> dict[str, str]:
        """Tower -> full, lora or frozen."""
        otherwise = {"full": ("full", "full", "full"), "lora": ("lora", "frozen", "frozen")}[self.method]
        return {name: tower.method or other for (name, tower), other in zip(self.towers, otherwise, strict=True)}


class Eval(Section):
    split: Literal["eval", "test"] = "eval"
    parts: dict[str, Part] | None = None
    """What is evaluated; None: the training parts. `count` of a part is ignored in favour of count / final_count."""
    count: Annotated[int, Field(ge=0)] = 32
    """Puzzles per part at a checkpoint; 0: none."""
    final_count: Annotated[int, Field(ge=0)] = 250
    """Puzzles per part after the last step; 0: none."""
    batch: PositiveInt = 8
    """Puzzles per generate call."""
    pictures: Annotated[int, Field(ge=0)] = 3
    """Pictures (sheet, the model's assembly, truth) per part and evaluation."""
    protocol: Literal["greedy", "sampled", "constrained"] = "greedy"
    """How `eval_hooks.run` has answers written; training always asks greedily. greedy: the published one. constrained:
    the likeliest of the tokens that spell a valid answer."""
    samples: PositiveInt = 1
    """Answers per puzzle; more than one with sampled only."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Of sampled."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of sampled."""
    require: dict[str, dict[str, Share]] = {}
    """{part: {entry: least}}: after the final evaluation the command exits non-zero below it."""


class Reward(Section):
    """What an answer earns in GRPO: a weighted sum of score entries. Any other entry of the parts' tasks may be named
    like these; with weight 0 it is logged and earns nothing. An entry that a part lacks does not count there, and an
    invalid answer earns nothing at all."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Weight]

    pa: Weight = 1.0
    """Pieces on their cells, of jigshape."""
    sc: Weight = 0.125
    """Edges that fit, of jigshape. Up to an eighth of pa no swap that puts a piece right earns less, at any grid."""
    correct: Weight = 1.0
    """Right answers, of the sub-skills and probes."""
    valid: Weight = 0.05
    """Answers in the right form. At most a tenth of what a right answer earns besides."""
    accept_unsafe_weights: bool = False
    """Train with weights that would be refused, as a worse answer can earn more."""

    @property
    def weights(self) -> dict[str, float]:
        """{score entry: weight}, also where the weight is 0."""
        return {name: weight for name, weight in self if name != "accept_unsafe_weights"}


class Endpoint(Section):
    """How an OpenAI-compatible server is asked; which one, the command says."""

    concurrency: PositiveInt = 8
    """Requests at once."""
    timeout_s: PositiveInt = 600
    """Of one try."""
    retries: Annotated[int, Field(ge=0)] = 6
    """Tries after the first."""
    max_requests: PositiveInt | None = None
    """Tries in all; None: no limit."""
    max_total_tokens: PositiveInt | None = None
    """Prompt and completion tokens in all, as the server counts them; None: no limit."""
    max_completion_tokens: PositiveInt | None = None
    """Of one answer, for models that think before they answer; None: as in this process, from the reference answer."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; it may be unset."""
    extra: dict[str, Any] = {}
    """Further fields of each request, recorded with the protocol: reasoning_effort, for one. null leaves a field out
    that would be there (temperature, max_tokens), for servers that refuse it."""


class Wandb(Section):
    mode: Literal["disabled", "offline", "online"] = "offline"
    project: str = "jigshape-train"
    entity: str | None = None


class Recipe(Section):
    """One run."""

    name: str
    """Of the run, in logs and W&B. Left out: the recipe file's name."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    output_dir: str
    """Folder of checkpoints, records and logs. Left out: runs/<name>."""
    resume: bool = False
    """Continue from the newest complete checkpoint in output_dir."""
    dry_run: bool = False
    """Do everything but train."""
    model: Model
    data: Data
    train: Train = Train()
    reward: Reward | None = None
    """None: the recipe is of supervised training, where nothing is rewarded."""
    eval: Eval = Eval()
    endpoint: Endpoint = Endpoint()
    wandb: Wandb = Wandb()
    trainer: dict[str, Any] = {}
    """Verbatim to TRL's SFTConfig: learning_rate, num_train_epochs, max_steps, warmup_steps, ..."""
