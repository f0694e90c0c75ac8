"""Reads an export of each format as others do: with safetensors, datasets, tinker and verl, where they are installed.

Usage: exports.py FOLDER PAGE [PART], where FOLDER has the folders skyrl, verl, tinker, jsonl and parquet, and the same in
its folder turns, of rollouts whose turns have rewards. PAGE is docs/export.md: its Python snippets are what is run. PART is the one of datasets, tinker, verl and skyrl that must not be
skipped. Prints a line a format; exits 1 at the first fault.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path

folder, page = Path(sys.argv[1]), Path(sys.argv[2])
needed = sys.argv[3] if len(sys.argv) > 3 else None
done = set()
snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
lines = [json.loads(line) for line in (folder / "skyrl" / "rollouts.jsonl").read_text().splitlines()]
expected = sum(line.get("rows", 0) for line in lines)


def has(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed")
    return not missing


def check(what, found, wanted):
    print(f"{what}: {found}")
    if found != wanted:
        sys.exit(f"{what}: expected {wanted}")


def defined(name):
    """The function of a snippet of the page."""
    space = {}
    exec(next(text for text in snippets if f"def {name}(" in text), space)
    return space[name]


def check_loop(name):
    """A step of the example's loop. The recorded log-probabilities are no policy's: the loop must see it, if it may."""
    import torch

    examples = page.parent.parent / "examples"
    sys.path.insert(0, str(examples / "trainers"))
    rounds, loop = importlib.import_module("rounds"), importlib.import_module(f"{name}_loop")
    policy = rounds.Policy(examples / "starter")
    loaded = loop.load(folder / name)
    batch = loaded if isinstance(loaded, tuple) else (loaded,)
    before = [one.detach().clone() for one in policy.model.parameters()]
    try:
        loop.update(policy, *batch)
    except SystemExit as end:
        check(f"{name}_loop sees the drift", "DRIFT_LIMIT" in str(end), True)
    else:
        sys.exit(f"{name}_loop trained on another policy's rollouts")
    limit, rounds.DRIFT_LIMIT = rounds.DRIFT_LIMIT, float("inf")
    loop.update(policy, *batch)
    rounds.DRIFT_LIMIT = limit
    changed = any(not torch.equal(old, new) for old, new in zip(before, policy.model.parameters()))
    check(f"{name}_loop makes a step on {rounds.DEVICE.type}", changed, True)


output = json.loads((folder / "skyrl" / "part-00000.json").read_text())
check("skyrl keys", len(output), 11)
check("skyrl rows", len(output["response_ids"]), expected)

if has("torch", "safetensors"):
    import torch
    from safetensors.torch import load_file

    tensors = load_file(folder / "verl" / "part-00000.safetensors")
    mask = tensors["attention_mask"]
    check("verl rows", tensors["input_ids"].shape[0], expected)
    positions = torch.clip(torch.cumsum(mask, dim=-1) - 1, min=0)
    check("verl positions", torch.equal(positions, tensors["position_ids"]), True)
    whole = torch.cat([tensors["prompts"], tensors["responses"]], dim=-1)
    check("verl input_ids", torch.equal(whole, tensors["input_ids"]), True)
    width = tensors["responses"].shape[1]
    check("verl masks", bool((tensors["response_mask"] <= mask[:, -width:]).all()), True)
    sampled = [[m for m in row] for row in output["loss_masks"]]
    padded = [row + [0] * (width - len(row)) for row in sampled]
    check("verl as skyrl", tensors["response_mask"].tolist(), padded)

if has("verl", "torch"):
    data = defined("load_verl")(folder / "verl")
    check("DataProto", len(data), expected)
    check("DataProto halves", [len(half) for half in data.chunk(2)], [expected // 2] * 2)
    check("DataProto metrics", "rollout_metrics" in data.meta_info, True)
    from verl.trainer.ppo import core_algos
    from verl.trainer.ppo.reward import extract_reward

    scores, _ = extract_reward(data)
    check("verl scores", scores.sum(-1).tolist(), data.non_tensor_batch["rewards"].tolist())
    turns = defined("load_verl")(folder / "turns" / "verl")
    scores, _ = extract_reward(turns)
    check("verl turn rewards", scores[0].tolist(), [0, 0.25, 0, 0, -0.5, 0, 1.25])
    check("verl sums of turns", scores.sum(-1).tolist(), turns.non_tensor_batch["rewards"].tolist())
    sampled = turns.batch["response_mask"].float()
    _, returns = core_algos.compute_gae_advantage_return(scores, torch.zeros_like(scores), sampled, 1.0, 1.0)
    credit = [float(value) for value, is_sampled in zip(returns[0], sampled[0]) if is_sampled]
    check("verl credit by turn", credit, [1, 1, 0.75, 0.75, 1.25])
    check_loop("verl")
    done.add("verl")

if has("tinker"):
    from tinker import types

    datums = list(defined("load_datums")(folder / "tinker" / "datums.jsonl"))
    check("tinker Datums", len(datums), expected)
    check("tinker lengths", {d.model_input.length == len(d.loss_fn_inputs["target_tokens"].data) for d in datums}, {True})
    rewards = [
        types.TensorData(**json.loads(line)) for line in (folder / "tinker" / "rewards.jsonl").read_text().splitlines()
    ]
    targets = [len(d.loss_fn_inputs["target_tokens"].data) for d in datums]
    check("tinker rewards", [len(one.data) for one in rewards], targets)
    done.add("tinker")

if has("datasets"):
    from datasets import load_dataset

    chats = load_dataset("json", data_files=str(folder / "jsonl" / "chats.jsonl"), split="train")
    typed = load_dataset("parquet", data_files=str(folder / "parquet" / "chats.parquet"), split="train")
    check("datasets columns", sorted(typed.column_names), sorted(chats.column_names))
    check("datasets rewards", typed["reward"][:], chats["reward"][:])
    check("datasets texts", [m["content"] for m in typed[0]["messages"]], [m["content"] for m in chats[0]["messages"]])
    check("datasets tools", json.loads(typed[0]["tools"])[0]["function"]["name"], chats[0]["tools"][0]["function"]["name"])
    done.add("datasets")
if has("skyrl", "torch", "ray"):
    from skyrl.train.utils.trainer_utils import validate_generator_output

    validate_generator_output(expected, output)
    done.add("skyrl")
    print(f"validate_generator_output: {len(output['response_ids'])}")
    # Rewards by token, as an export with turn rewards has them.
    by_token = [[0.0] * (len(ids) - 1) + [1.0] for ids in output["response_ids"]]
    validate_generator_output(expected, {**output, "rewards": by_token})
    broken = {**output, "loss_masks": [*output["loss_masks"][:-1], [*output["loss_masks"][-1], 1]]}
    try:
        validate_generator_output(expected, broken)
    except AssertionError:
        pass
    else:
        sys.exit("validate_generator_output accepts a mask that is too long: it checks nothing")
    check_loop("skyrl")

if needed is not None and needed not in done:
    sys.exit(f"{needed} was skipped: its packages do not import")
print("exports: read")
