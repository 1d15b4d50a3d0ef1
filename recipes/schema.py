"""The recipe format; what `data:` may hold is in recipes.data_sections. Field docstrings give meaning and unit, and
`python -m recipes --help` prints all of it.

What WE decide is here; `trainer:` goes verbatim to TRL's config class.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from recipes.data_sections import Adaptive as Adaptive
from recipes.data_sections import Curriculum as Curriculum
from recipes.data_sections import Data
from recipes.data_sections import Dataset as Dataset
from recipes.data_sections import Groups as Groups
from recipes.data_sections import Ladder as Ladder
from recipes.data_sections import Part as Part
from recipes.data_sections import Photos as Photos
from recipes.data_sections import SplitShares as SplitShares
from recipes.data_sections import Stage as Stage
from recipes.section import PositiveInt, Section, Share, Weight

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
    start: str | None = None
    """Checkpoint folder of an earlier run, whose weights training starts from: all weights, or an adapter, which
    train.method=lora of the same shape then goes on with. None: those of the model."""
    effective_batch: PositiveInt = 64
    """Examples per optimizer step over all processes; in GRPO completions, trainer.num_generations for each puzzle."""
    batching: Literal["plain", "balanced", "packed", "auto"] = "plain"
    """How a step's examples share forward passes. plain: micro_batch rows, padded; effective_batch must then be
    micro_batch x processes x a whole number. balanced: equal work for each process, in rows of like length, as many as
    max_pack_tokens allows. packed: equal work for each process, several examples in one row; not for gemma3. auto:
    packed where the model can be, else balanced. GRPO: plain only."""
    micro_batch: PositiveInt = 1
    """Examples per forward pass and process, where batching is plain; in GRPO completions."""
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
    along: Literal["answer", "row", "piece"] = "answer"
    """Which tokens an answer's reward counts for. answer: all alike. row, piece: in answers that go cell by cell, those
    of each row or piece by what that one earns."""
    accept_unsafe_weights: bool = False
    """Train with weights that would be refused, as a worse answer can earn more."""

    @property
    def weights(self) -> dict[str, float]:
        """{score entry: weight}, also where the weight is 0."""
        return {name: weight for name, weight in self if name not in ("along", "accept_unsafe_weights")}


class Rollouts(Section):
    """How a GRPO run has its completions written, unless trainer.use_vllm is true."""

    constrained: bool = False
    """Draw only tokens that spell a valid answer. Those that its form dictates are given, and carry no loss."""
    batch: PositiveInt = 16
    """Completions per generate call and process."""
    write: bool = False
    """Write every completion, with what it earned, to rollouts/ in output_dir."""


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
    """None: the recipe is of supervised training, where nothing is rewarded. Else it is of GRPO."""
    rollouts: Rollouts = Rollouts()
    """GRPO only."""
    eval: Eval = Eval()
    endpoint: Endpoint = Endpoint()
    wandb: Wandb = Wandb()
    trainer: dict[str, Any] = {}
    """Verbatim to TRL's SFTConfig, in GRPO its GRPOConfig: learning_rate, num_train_epochs, max_steps, beta, ..."""
