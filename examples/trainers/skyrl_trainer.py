"""SkyRL's own trainer trains what Longhaul rolls out: `python skyrl_trainer.py MODEL WORK [ROUNDS]`.

The export is what SkyRL's generators return. SkyRL's `RayPPOTrainer` takes it from there: its tensors, old
log-probabilities and advantages, and the steps of its policy worker (FSDP, in bfloat16, one GPU). The saved folder is
the next policy. EPOCHS is the number of a round's steps. Needs skyrl 0.4, ray, torch and transformers, not vLLM.
SkyRL imports flash-attention's `bert_padding`, which is not used here: attention is PyTorch's.
"""

import os
import shutil
import sys
from pathlib import Path

from rounds import SAMPLES, TASKS, drift, rollouts
from skyrl.backends.skyrl_train.workers.fsdp.fsdp_worker import CriticWorker, PolicyWorker, RefWorker
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils.utils import initialize_ray
from skyrl_loop import load
from transformers import AutoTokenizer

EPOCHS = int(os.environ.get("EPOCHS", "2"))


def trainer_of(folder):
    settings = {
        "trainer.policy.model.path": str(folder),
        "trainer.policy.optimizer_config.lr": 1e-4,
        "trainer.placement.colocate_all": False,
        "trainer.placement.policy_num_gpus_per_node": 1,
        "trainer.flash_attn": False,
        "trainer.remove_microbatch_padding": False,
        "trainer.gradient_checkpointing": False,
        "trainer.algorithm.use_kl_loss": False,
        "trainer.train_batch_size": TASKS,
        "trainer.policy_mini_batch_size": TASKS,
        "trainer.micro_train_batch_size_per_gpu": 16,
        "trainer.micro_forward_batch_size_per_gpu": 16,
        "trainer.update_epochs_per_batch": EPOCHS,
        "generator.n_samples_per_prompt": SAMPLES,
    }
    config = SkyRLTrainConfig.from_cli_overrides(settings)
    initialize_ray(config)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    trainer = RayPPOTrainer(config, None, tokenizer, None, None, None)
    trainer.build_models(PolicyWorker, CriticWorker, RefWorker)
    return trainer


def update(trainer, output, groups):
    """EPOCHS steps of the whole batch."""
    output, uids = trainer.postprocess_generator_output(output, list(groups))
    batch = trainer.fwd_logprobs_values_reward(trainer.convert_to_training_input(output, uids))
    apart = drift(batch["action_log_probs"], batch["rollout_logprobs"], batch["loss_mask"].float())
    reward = float(batch["rewards"].sum(-1).mean())
    metrics = trainer.train_critic_and_policy(trainer.compute_advantages_and_returns(batch))
    return {"reward": reward, **apart, "norm": metrics["grad_norm"], "loss": metrics["policy_loss"]}


def save(trainer, folder, model):
    """Complete or absent, with the tokenizer of the first policy."""
    aside = folder.with_suffix(".partial")
    shutil.rmtree(aside, ignore_errors=True)
    trainer.dispatch.save_hf_model("policy", str(aside.resolve()), trainer.tokenizer)
    for file in model.glob("tokenizer*"):
        shutil.copy(file, aside)
    aside.rename(folder)


if __name__ == "__main__":
    model, work = Path(sys.argv[1]), Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    trainer, policy = None, model
    for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 2):
        following = work / f"checkpoint-{number + 1}"
        if not following.exists():
            exported = rollouts(work, "skyrl", policy, "skyrl", number)
            trainer = trainer or trainer_of(policy.resolve())
            print(number, update(trainer, *load(exported)), flush=True)
            save(trainer, following, model)
        policy = following
