"""Rounds of another trainer over Longhaul's rollouts: an eval of a checkpoint's folder on training tasks, its export in
the trainer's format, and the next checkpoint's folder. Longhaul's rollouts are durable; a round that was interrupted is
started again by the same command, and only what is missing is done.

With SAMPLER=vllm:http://HOST:PORT?model=MODEL (or sglang:) such a server samples: each checkpoint is pushed to it under
its round's number. DRIFT_LIMIT bounds how far its log-probabilities may be from the trainer's own, in nats.

PyTorch trains on a GPU if there is one. PRECISION is that of its matrix products: float32, tf32 or bfloat16. Weights
and moments are in float32 with each. TASKS is a round's tasks, SAMPLES the rollouts of each."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

SAMPLER = os.environ.get("SAMPLER")
DRIFT_LIMIT = float(os.environ.get("DRIFT_LIMIT", "0.1"))
LONGHAUL = os.environ.get("LONGHAUL", "npx longhaul").split()
PRECISIONS = ("float32", "tf32", "bfloat16")
PRECISION = os.environ.get("PRECISION", "float32")
if PRECISION not in PRECISIONS:
    raise SystemExit(f"PRECISION is {PRECISION}: set it to one of {', '.join(PRECISIONS)}")
TASKS, SAMPLES = int(os.environ.get("TASKS", "4")), int(os.environ.get("SAMPLES", "4"))
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.set_float32_matmul_precision("high" if PRECISION == "tf32" else "highest")

EVAL = """\
tasks: {{ name: swe-mini, split: train, from: {first}, count: {tasks} }}
policies: [{{ name: policy, policy: {policy} }}]
sampling: [{{ name: sampled, temperature: 1, samples: {samples}, maxTokens: 120 }}]
passAt: [1]
agent: {{ maxTurns: 5, maxContextTokens: 700, toolTimeoutSeconds: 20 }}
"""


def policy_of(folder, number):
    """What an eval samples: the folder itself by Longhaul's engine, or the folder's version by the server."""
    path = str(folder.resolve())
    return json.dumps(f"{SAMPLER}&version={number}#{quote(path)}" if SAMPLER else path)


def drift(found, recorded, mask):
    """The sampler's log-probabilities against the trainer's, in nats over sampled tokens. Ends before a step is made of
    rollouts that other weights sampled."""
    apart = (found.detach() - recorded).abs() * mask
    mean, most = float(apart.sum() / mask.sum().clamp(min=1)), float(apart.max())
    if not mean <= DRIFT_LIMIT:
        raise SystemExit(
            f"the sampler's log-probabilities are {mean:.4f} nats from the trainer's, and DRIFT_LIMIT is {DRIFT_LIMIT}: "
            "check the server's base model and precision, or raise DRIFT_LIMIT"
        )
    return {"drift_mean": mean, "drift_max": most}


def rollouts(work, name, folder, form, number):
    """Rolls out the policy in `folder` and exports it: the folder with the trainer's files."""
    out = work / f"{name}-{number}"
    if not out.exists():
        config = work / f"{name}-{number}.yaml"
        policy = policy_of(folder, number)
        config.write_text(EVAL.format(policy=policy, first=number * TASKS, tasks=TASKS, samples=SAMPLES))
        subprocess.run([*LONGHAUL, "eval", str(config)], check=True)
        subprocess.run([*LONGHAUL, "export", f"eval/{name}-{number}", "--format", form, "--out", str(out)], check=True)
    return out


class Policy:
    """A checkpoint's folder that PyTorch trains: the whole model, on the GPU if there is one."""

    def __init__(self, folder, learning_rate=1e-4):
        self.folder = folder
        self.model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate)

    def log_probs(self, input_ids, attention_mask, width):
        """Log-probabilities of the last `width` tokens, [rows, width], at temperature 1."""
        positions = torch.clip(torch.cumsum(attention_mask, dim=-1) - 1, min=0)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=PRECISION == "bfloat16"):
            logits = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions).logits
        every = F.log_softmax(logits[:, -width - 1 : -1].float(), dim=-1)
        return every.gather(-1, input_ids[:, -width:, None]).squeeze(-1)

    def step(self, loss):
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norm)

    def save(self, folder):
        """Complete or absent, with the tokenizer of the folder that it came from: the next policy of Longhaul."""
        aside = folder.with_suffix(".partial")
        shutil.rmtree(aside, ignore_errors=True)
        self.model.save_pretrained(aside)
        for file in Path(self.folder).glob("tokenizer*"):
            shutil.copy(file, aside)
        aside.rename(folder)
