"""VeRL's own actor trains what Longhaul rolls out: `python verl_actor.py MODEL WORK [ROUNDS]`.

The batch goes to the worker group of VeRL's actor (FSDP in Ray's processes), as VeRL's trainer hands it over: the old
log-probabilities are the actor's, the advantages GRPO's. The actor's checkpoint has a folder `huggingface`, the next
policy. GPUS is the number of workers, EPOCHS that of a round's steps. Needs verl 0.9, ray, torch and transformers,
neither vLLM nor flash-attention.
"""

import os
import shutil
import sys
from pathlib import Path

import ray
from hydra import compose, initialize_config_module
from rounds import PRECISION, drift, rollouts
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.utils import tensordict_utils
from verl.workers.engine_workers import ActorRolloutRefWorker
from verl.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding
from verl_loop import judged, load

GPUS, EPOCHS = int(os.environ.get("GPUS", "1")), int(os.environ.get("EPOCHS", "2"))
DTYPE = {"float32": "fp32", "bfloat16": "bf16"}.get(PRECISION)
if DTYPE is None:
    raise SystemExit(f"PRECISION is {PRECISION}: VeRL's actor takes float32 or bfloat16")
TOKENS = 16384


def actor_of(folder):
    """VeRL's worker group for the policy in `folder`, one worker a GPU: the whole model, products in PRECISION."""
    actor = "actor_rollout_ref.actor"
    overrides = [
        f"actor_rollout_ref.model.path={folder}",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        "actor_rollout_ref.model.use_remove_padding=false",
        f"{actor}.strategy=fsdp2",
        f"{actor}.fsdp_config.strategy=fsdp2",
        f"{actor}.fsdp_config.use_torch_compile=false",
        f"+{actor}.fsdp_config.mixed_precision={{param_dtype: {DTYPE}, reduce_dtype: fp32, buffer_dtype: fp32}}",
        f"{actor}.optim.lr=1e-4",
        f"{actor}.use_dynamic_bsz=true",
        f"{actor}.ppo_max_token_len_per_gpu={TOKENS}",
        f"{actor}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        "actor_rollout_ref.rollout.name=vllm",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides).actor_rollout_ref
    pool = RayResourcePool([GPUS], max_colocate_count=1)
    worker = RayClassWithInitArgs(ray.remote(ActorRolloutRefWorker), config=config, role="actor")
    group = RayWorkerGroup(pool, worker)
    group.init_model()
    return group


def handed(data, **settings):
    """The batch as VeRL's trainer gives it to its workers: a TensorDict without padding."""
    rows = left_right_2_no_padding(data.to_tensordict())
    tensordict_utils.assign_non_tensor(rows, **settings)
    return rows


def update(actor, data):
    """EPOCHS steps, each of the whole batch."""
    mask = data.batch["response_mask"].float()
    data.meta_info = {"temperature": 1.0}
    rows = handed(data, calculate_entropy=False, compute_loss=False)
    found = no_padding_2_padding(tensordict_utils.get(actor.compute_log_prob(rows), "log_probs"), rows).float()
    apart = drift(found, data.batch["rollout_log_probs"], mask)
    rewards, advantages = judged(data)
    data.batch["old_log_probs"], data.batch["advantages"] = found, advantages * mask
    steps = {"mini_batch_size": len(data), "global_batch_size": len(data), "epochs": EPOCHS}
    rows = handed(data, calculate_entropy=False, compute_loss=True, dataloader_kwargs={"shuffle": False}, **steps)
    metrics = tensordict_utils.get(actor.update_actor(rows), "metrics")
    return {"reward": float(rewards.sum(-1).mean()), **apart, "norm": metrics["grad_norm"], "loss": metrics["loss"]}


def save(actor, folder, model):
    """The actor's checkpoint, complete or absent, its `huggingface` with the tokenizer of the first policy."""
    aside = folder.with_suffix(".partial")
    shutil.rmtree(aside, ignore_errors=True)
    actor.save_checkpoint(str(aside.resolve()))
    for file in model.glob("tokenizer*"):
        shutil.copy(file, aside / "huggingface")
    aside.rename(folder)


if __name__ == "__main__":
    model, work = Path(sys.argv[1]), Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    ray.init(num_gpus=GPUS, include_dashboard=False)
    actor, policy = None, model
    for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 2):
        following = work / f"checkpoint-{number + 1}"
        if not following.exists():
            exported = rollouts(work, "verl", policy, "verl", number)
            actor = actor or actor_of(policy.resolve())
            print(number, update(actor, load(exported)), flush=True)
            save(actor, following, model)
        policy = following / "huggingface"
