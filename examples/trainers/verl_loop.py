"""VeRL trains what Longhaul rolls out: `python verl_loop.py MODEL WORK [ROUNDS]`.

Batches are VeRL's own `DataProto`, advantages and loss its `core_algos`. The step itself is PyTorch's, so that it runs
without a GPU too: verl_actor.py hands the batch to VeRL's own actor. Needs verl, torch and transformers.
"""

import json
import sys
from pathlib import Path

import numpy
import torch
from rounds import DEVICE, Policy, drift, rollouts
from safetensors.torch import load_file
from verl import DataProto
from verl.trainer.ppo import core_algos


def load(folder):
    path = Path(folder) / "part-00000"
    rest = json.loads(path.with_suffix(".json").read_text())
    columns = {name: numpy.array(values, dtype=object) for name, values in rest["non_tensors"].items()}
    tensors = load_file(path.with_suffix(".safetensors"))
    return DataProto.from_dict(tensors=tensors, non_tensors=columns, meta_info=rest["meta_info"])


def judged(data):
    """Rewards and GRPO's advantages, a row each. A rollout of several rows counts once per row, as VeRL counts rows."""
    rewards = data.batch["rm_scores"]
    whole = torch.ones_like(rewards)
    return rewards, core_algos.compute_grpo_outcome_advantage(rewards, whole, data.non_tensor_batch["uid"])[0]


def update(policy, data):
    """One step."""
    batch = data.to(DEVICE).batch
    mask = batch["response_mask"].float()
    rewards, advantages = judged(data)
    found = policy.log_probs(batch["input_ids"], batch["attention_mask"], mask.shape[1])
    apart = drift(found, batch["rollout_log_probs"], mask)
    ratio = torch.exp(found - found.detach())
    per_token = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    norm = policy.step(core_algos.agg_loss(per_token, mask, "token-mean"))
    return {"reward": float(rewards.sum(-1).mean()), **apart, "norm": norm}


if __name__ == "__main__":
    folder, work = Path(sys.argv[1]), Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 2):
        following = work / f"checkpoint-{number + 1}"
        if not following.exists():
            policy = Policy(folder)
            print(number, update(policy, load(rollouts(work, "verl", folder, "verl", number))), flush=True)
            policy.save(following)
        folder = following
