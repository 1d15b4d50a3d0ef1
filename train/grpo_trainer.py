"""TRL's GRPOTrainer on puzzles: its arithmetic; prompts, completions, groups and checkpoints are ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import Trainer
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from data_mix.groups import Group, GroupScores, group_metrics
from data_mix.mixture import Mixture
from data_mix.prompt_batches import Asked, PromptBatches
from data_mix.refill import Refill
from models.generation import evaluating
from models.load import Loaded
from models.offsets import token_starts
from recipes.schema import Recipe
from train.batches import as_dataset
from train.completion_logps import completion_batch, completion_logps
from train.credit import along, credit_of
from train.reference import reference_of
from train.reward_functions import RewardFunction, reward_weights
from train.rollouts import Engine, Prompt, Prompts, Written, grouped, judged
from train.run_trainer import RunTrainer
from train.step_log import StepLog
from train.vllm_engine import VllmEngine

GROUPS_FILE = "groups.json"
"""In a checkpoint: what the run's groups have found, for its curriculum."""


class PromptTrainer(RunTrainer, GRPOTrainer):
    """Asks the puzzles of each step, replaces groups that teach nothing, and trains on what is left.

    TRL computes advantages and loss. It is handed completions that exist already, and log-probabilities that are
    computed on rows as supervised training has them: a prompt, its answer, padding on the right.
    """

    def __init__(
        self,
        recipe: Recipe,
        loaded: Loaded,
        mixture: Mixture,
        batches: PromptBatches,
        found: GroupScores,
        engine: Engine | None,
        args: GRPOConfig,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            found: what the run's groups have found so far.
            engine: writes completions; None: vLLM does, as `args` say.
        """
        weights = reward_weights(recipe)
        args.ddp_find_unused_parameters = False  # every micro-batch has an image
        args.reward_weights = list(weights.values())
        self._weights, self._along = weights, recipe.reward.along
        self._prompts = Prompts(loaded, mixture)
        self._judge = judged(recipe)
        self._found = found
        self._refill = Refill(mixture.positions(), recipe.seed, recipe.data.refill_tries)
        self._written: dict[tuple[int, int], Written] = {}
        self._rows: list[tuple[Prompt, Written]] = []
        """This process's completions that are trained on."""
        self._scored: list[tuple[Prompt, Written]] = []
        """Those of them whose log-probabilities TRL asks for next."""
        reference, beta = reference_of(loaded, args), args.beta
        if reference is not None:
            args.beta = 0.0  # or TRL would look for one under the name of the model's folder
        super().__init__(
            recipe,
            loaded,
            batches,
            args,
            stop_every=batches.rollout.uses,
            reward_funcs=[RewardFunction(entry) for entry in weights],
            train_dataset=as_dataset(mixture),
            rollout_func=self._handed,
            **kwargs,
        )
        self._engine = engine or VllmEngine(self.vllm_generation, loaded, self.num_generations, self._own_logps)
        if reference is not None:
            add_fused_lm_head(reference, temperature=self.temperature)
            self.ref_model = self.accelerator.prepare_model(reference, evaluation_mode=True)
            self.beta = args.beta = beta
        if recipe.rollouts.write:
            folder = Path(args.output_dir, "rollouts")
            self.add_callback(StepLog(folder, args.process_index, self._rollouts))

    def _rollouts(self) -> dict[str, Any]:
        """The completions of this process that the last step was about."""
        told = [
            {
                "key": prompt.posed.puzzle.key, "part": prompt.posed.part, "text": written.completion.text,
                "finish_reason": written.completion.finish_reason, "reward": written.reward, "scores": written.scores,
            }
            for prompt, written in self._rows
        ]  # fmt: skip
        return {"completions": told}

    # ---- completions ----

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        spread = self.batches.rollout
        step = self.state.global_step // spread.uses
        positions, rank = self.batches.order.step(step), self.accelerator.process_index
        at_hand = spread.at_hand(positions, rank)
        self._prompts.hold({at: (row["posed"], row["images"]) for at, row in zip(at_hand, inputs, strict=True)})
        self._written, asked = {}, list[int]()

        def ask(more: Sequence[int]) -> list[Group]:
            own = spread.share(more, rank, first_place=len(asked))
            asked.extend(more)
            return self._ask(step, more, own)

        filled = self._refill.fill(step, ask(positions), ask)
        self._found.add(step, filled.asked)
        self._note(chain(group_metrics(filled.asked), filled.metrics().items()))
        self._note((f"share/{part}", share) for part, share in self.batches.order.shares(step).items())
        if filled.chosen != list(range(len(positions))):  # groups have to move between processes
            self._written = dict(gather_object(list(self._written.items())))
        own = [(filled.chosen[one.place], one.sample) for one in spread.share(positions, rank)]
        self._rows = [(self._prompts[asked[place]], self._written[place, sample]) for place, sample in own]
        self._scored = self._rows
        rows = [{"prompt": _said(prompt), "scores": written.scores} for prompt, written in self._rows]
        self._last_loaded_step = self.state.global_step  # or TRL would hand vLLM the same weights again
        output = super()._generate_and_score_completions(rows)
        output["row"] = torch.arange(len(rows))
        if self._along != "answer":
            groups = [filled.asked[which] for which in filled.chosen]
            output["advantages"] = self._credited(groups, output["completion_ids"].shape[1])
        return output

    def _credited(self, groups: Sequence[Group], width: int) -> torch.Tensor:
        """Advantages of this process's completions, token by token, (rows, width)."""
        own = [
            credit_of(prompt.posed, written.completion.text, self._along, self._weights)
            for prompt, written in self._rows
        ]
        first, tokenizer = len(own) * self.accelerator.process_index, self._loaded.processor.tokenizer
        starts = [token_starts(tokenizer, written.completion.ids) for _, written in self._rows]
        advantages = along(
            torch.tensor([group.rewards for group in groups]),
            gather_object(own),
            dict(enumerate(starts, first)),
            scale_rewards=self.scale_rewards,
        )
        return torch.nn.functional.pad(advantages, (0, width - advantages.shape[1])).to(self.accelerator.device)

    def _ask(self, step: int, positions: Sequence[int], own: Sequence[Asked]) -> list[Group]:
        """Have this process's share written; the groups of all."""
        prompts = [self._prompts[one.position] for one in own]
        with self.whole_model():
            completions = self._engine(step, own, prompts, self.beat)
        for one, prompt, (completion, logps) in zip(own, prompts, completions, strict=True):
            self._written[one.place, one.sample] = self._judge(prompt.posed, completion, logps)
        written = [self._written[one.place, one.sample] for one in own]
        told = gather_object(
            [
                (one.primary, one.reward, prompt.posed.part, one.completion.finish_reason, one.scores["valid"])
                for one, prompt in zip(written, prompts, strict=True)
            ]
        )[: len(positions) * self.num_generations]
        invalid = [(reason, not valid) for *_, reason, valid in told]
        self._note(
            (name, fmean(bad and (reason == "length") == cut for reason, bad in invalid))
            for name, cut in (("invalid/truncated", True), ("invalid/ended", False))
        )
        parts = [part for _, _, part, *_ in told[:: self.num_generations]]
        return grouped(positions, parts, [(primary, reward) for primary, reward, *_ in told])

    def _note(self, metrics: Any) -> None:
        """Numbers for the log, which has their means over its steps."""
        for name, value in metrics:
            self._metrics["train"][name].append(value)

    def _handed(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """What TRL is told has been written."""
        handed: dict[str, Any] = {
            "prompt_ids": [prompt.encoded["input_ids"][0].tolist() for prompt, _ in self._rows],
            "completion_ids": [list(written.completion.ids) for _, written in self._rows],
            "logprobs": [written.logps for _, written in self._rows] if self.use_vllm else None,
        }
        if self._constrained:
            handed["env_mask"] = [written.completion.decided for _, written in self._rows]
        return handed

    @property
    def _constrained(self) -> bool:
        return self._rows[0][1].decisions is not None

    # ---- log-probabilities and loss ----

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **others: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        batch_size = batch_size or len(self._scored)
        found = [
            self._logps(model, self._scored[start : start + batch_size], logits_to_keep)
            for start in range(0, len(self._scored), batch_size)
        ]
        logps, entropies = (torch.cat(each) for each in zip(*found, strict=True))
        return logps, entropies if compute_entropy else None, None

    def _logps(
        self, model: Any, rows: Sequence[tuple[Prompt, Written]], width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch = completion_batch(self._loaded, rows, always_image=self.args.world_size > 1)
        features = self._loaded.family.model_inputs(
            self._loaded.processor, Trainer._prepare_inputs(self, batch.features)
        )
        with self.accelerator.autocast():
            return completion_logps(model, features, batch, width, self.temperature)

    def _own_logps(self, rows: Sequence[tuple[Prompt, Written]]) -> torch.Tensor:
        width = max(len(written.completion.ids) for _, written in rows)
        size = self.args.per_device_train_batch_size
        with torch.no_grad(), evaluating(self.model):
            found = [self._logps(self.model, rows[at : at + size], width)[0] for at in range(0, len(rows), size)]
        return torch.cat(found)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._scored = [self._rows[row] for row in inputs["row"].tolist()]
        self.step_keys.append(list(dict.fromkeys(prompt.posed.puzzle.key for prompt, _ in self._scored)))
        loss = super()._compute_loss(model, inputs)
        self._losses.append(loss.detach())
        return loss

    def get_batch_samples(self, *args: Any) -> Any:
        self.step_keys = []
        return super().get_batch_samples(*args)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        super().log(logs | self._tower_rates(logs), start_time)

    # ---- checkpoints ----

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        super()._save(output_dir, state_dict)
        # what TRL compares with is the adapter as it was at the start
        shutil.rmtree(Path(output_dir or self.args.output_dir, "ref"), ignore_errors=True)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            # what TRL's adaptive entropy bonus goes on from
            entropy = [self.entropy_coef, self._last_world_entropy] if self.use_adaptive_entropy else None
            text = json.dumps({"groups": self._found.state(), "entropy": entropy})
            Path(output_dir, GROUPS_FILE).write_text(text, encoding="utf-8")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self.use_adaptive_entropy and (held := read_groups(Path(checkpoint))["entropy"]):
            self.entropy_coef, self._last_world_entropy = held


def read_groups(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint of a GRPO run holds of its groups.

    Raises:
        ValueError: it holds none.
    """
    file = checkpoint / GROUPS_FILE
    if not file.is_file():
        raise ValueError(
            f"resume: got {checkpoint} without {GROUPS_FILE}; allowed is a checkpoint of a GRPO run; to train on from "
            f"the weights of another, set train.start={checkpoint} output_dir=..."
        )
    return json.loads(file.read_text(encoding="utf-8"))


def _said(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt's text, for TRL's own log of completions."""
    return [
        {"role": message["role"], "content": "".join(part.get("text", "") for part in message["content"])}
        for message in prompt.posed.puzzle.messages
    ]
