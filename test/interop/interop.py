"""The other half of run-interop.ts: what transformers and peft make of our policies, and policies of theirs for us."""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

TOLERANCE = 2e-4
root = Path(sys.argv[1])
torch.manual_seed(7)


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float()


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def check(what, model, case):
    wanted = torch.tensor(case["logits"])
    farthest = (logits_of(model, case["tokens"]) - wanted).abs().max().item()
    print(f"{what}: largest difference {farthest:.2e}")
    if not farthest <= TOLERANCE:
        sys.exit(f"{what}: {farthest} is more than {TOLERANCE}")


class ValueModel(torch.nn.Module):
    """What a critic's adapter stands beside: a decoder with a linear head, which the adapter has whole."""

    def __init__(self, folder):
        super().__init__()
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        self.value_head = torch.nn.Linear(self.model.config.hidden_size, 1, bias=False)

    def forward(self, ids):
        return self.value_head(self.model(ids).last_hidden_state)[..., 0]


def check_critic(folder):
    adapter = folder / "critic-adapter"
    case = json.loads((adapter / "case.json").read_text())
    model = PeftModel.from_pretrained(ValueModel(folder), adapter).eval()
    with torch.no_grad():
        values = model(torch.tensor([case["tokens"]]))[0, :-1]
    farthest = (values - torch.tensor(case["values"])).abs().max().item()
    print(f"{folder.name} with our critic's adapter in peft: largest difference {farthest:.2e}")
    if not farthest <= TOLERANCE:
        sys.exit(f"{folder.name}: {farthest} is more than {TOLERANCE}")


def read_ours(folder):
    check(f"{folder.name} in transformers", load(folder), json.loads((folder / "case.json").read_text()))
    adapter = folder / "adapter"
    model = PeftModel.from_pretrained(load(folder), adapter).eval()
    check(f"{folder.name} with our adapter in peft", model, json.loads((adapter / "case.json").read_text()))
    check(f"{folder.name} merged by peft", model.merge_and_unload(), json.loads((adapter / "case.json").read_text()))
    check_critic(folder)


def write_theirs(folder, dtype, tokens):
    """The same shape with weights of torch's own, in shards or whole, and an adapter with patterns."""
    target = root / f"theirs-{folder.name}-{dtype}"
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.to(getattr(torch, dtype)).save_pretrained(target, max_shard_size="1GB" if dtype == "float16" else "30KB")
    shards = len(list(target.glob("*.safetensors")))
    if (shards == 1) != (dtype == "float16"):
        sys.exit(f"{target.name}: {shards} files")
    case = {"tokens": tokens, "logits": logits_of(load(target), tokens).tolist()}
    (target / "case.json").write_text(json.dumps(case))
    base = load(target)
    # With an adapter of the head, peft writes the head itself beside it.
    head = [] if base.config.tie_word_embeddings else ["lm_head"]
    settings = LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "up_proj", *head], rank_pattern={"v_proj": 2}, use_rslora=True)
    peft = get_peft_model(base, settings).eval()
    with torch.no_grad():
        for name, parameter in peft.named_parameters():
            if "lora_" in name:
                parameter.add_(0.05 * torch.randn_like(parameter))
    peft.save_pretrained(target / "adapter")
    case = {"tokens": tokens, "logits": logits_of(peft, tokens).tolist()}
    (target / "adapter" / "case.json").write_text(json.dumps(case))


for folder in sorted(root.glob("ours-*")):
    read_ours(folder)
    for dtype in sys.argv[2:]:
        write_theirs(folder, dtype, json.loads((folder / "case.json").read_text())["tokens"])
