"""The peer of `longhaul bench sample` and `bench train`: transformers on PyTorch; a JSON request or answer per line."""

import json
import os
import resource
import sys
import time

threads = int(os.environ["LONGHAUL_BENCH_THREADS"])
os.environ["OMP_NUM_THREADS"] = str(threads)

import torch
import transformers
from transformers import AutoModelForCausalLM

torch.set_num_threads(threads)
transformers.logging.set_verbosity_error()


class Peer:
    """Holds one model at a time; times are seconds of the work only."""

    def load(self, dir, seed):
        torch.manual_seed(seed)
        self.model = AutoModelForCausalLM.from_pretrained(dir, dtype=torch.float32)
        self.optimizer = None
        name = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, eager"
        return {"name": name, "parameters": sum(p.numel() for p in self.model.parameters())}

    def sample(self, prompts, tokens):
        self.model.eval()
        ids = torch.tensor(prompts)
        began = time.perf_counter()
        with torch.no_grad():
            out = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                pad_token_id=0,
            )
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "tokens": int(out.numel() - ids.numel())}

    def train(self, sequences, rate, gradientCheckpointing):
        self.model.train()
        if gradientCheckpointing:
            self.model.gradient_checkpointing_enable()
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=0.0)
        ids = torch.tensor(sequences)
        began, before = time.perf_counter(), time.process_time()
        logits = self.model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds, processor = time.perf_counter() - began, time.process_time() - before
        return {"seconds": seconds, "processorSeconds": processor, "loss": loss.item(), "gradNorm": norm.item()}

    def peak(self):
        return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


peer = Peer()
answers = os.fdopen(os.dup(1), "w")
# Output of libraries goes to stderr, so that stdout has only answers.
os.dup2(2, 1)
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = getattr(peer, request.pop("call"))(**request)
    except Exception as error:  # reported to the caller, who decides
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=answers, flush=True)
