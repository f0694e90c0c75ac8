"""SkyRL trains what Longhaul rolls out: `python skyrl_loop.py MODEL WORK [ROUNDS]`.

The export is checked by SkyRL's `validate_generator_output`, becomes its tensors by its own preprocessing, and gets its
advantages. The step itself is PyTorch's, so that it runs without a GPU too: skyrl_trainer.py gives the export to
SkyRL's own trainer. Needs skyrl 0.4, torch and transformers.
"""

import json
import sys
from pathlib import Path

import numpy
import torch
from rounds import DEVICE, Policy, drift, rollouts
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_grpo_outcome_advantage
from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors
from skyrl.train.utils.trainer_utils import validate_generator_output

PAD = 0


def load(folder):
    """SkyRL's generator output, and the group of each row."""
    output = json.loads((Path(folder) / "part-00000.json").read_text())
    lines = [json.loads(line) for line in (Path(folder) / "rollouts.jsonl").read_text().splitlines()]
    groups = [line["group"] for line in lines for _ in range(line.get("rows", 0))]
    validate_generator_output(len(groups), output)
    return output, numpy.array(groups, dtype=object)


def update(policy, output, groups):
    per_token = [
        [0.0] * (len(ids) - 1) + [float(reward)] if not isinstance(reward, list) else reward
        for ids, reward in zip(output["response_ids"], output["rewards"])
    ]
    tensors = convert_prompts_responses_to_batch_tensors(
        PAD,
        output["prompt_token_ids"],
        output["response_ids"],
        per_token,
        output["loss_masks"],
        output["rollout_logprobs"],
    )
    input_ids, attention, response_mask, rewards, loss_mask, recorded = (one.to(DEVICE) for one in tensors[:6])
    advantages, _ = compute_grpo_outcome_advantage(rewards, response_mask, groups)
    mask = loss_mask.float()
    found = policy.log_probs(input_ids, attention.long(), mask.shape[1])
    apart = drift(found, recorded, mask)
    ratio = torch.exp(found - found.detach())
    losses = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    norm = policy.step((losses * mask).sum() / mask.sum().clamp(min=1))
    return {"reward": float(rewards.sum(-1).mean()), **apart, "norm": norm}


if __name__ == "__main__":
    folder, work = Path(sys.argv[1]), Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 2):
        following = work / f"checkpoint-{number + 1}"
        if not following.exists():
            policy = Policy(folder)
            print(number, update(policy, *load(rollouts(work, "skyrl", folder, "skyrl", number))), flush=True)
            policy.save(following)
        folder = following
