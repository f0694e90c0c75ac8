"""The supervised and the RL loop of tinker-cookbook 0.6.1, unchanged, against a Tinker server.

    python cookbook_recipes.py FOLDER [sl] [rl] [rl_gspo] [rl_default]

Their loops are called as they are. What a user chooses is chosen here: model, sizes, loss, and, since there may be
neither the Hugging Face Hub nor a model that does sums, data, the renderer's name and the reward. Each loop must learn.
The RL loop's default loss, `stable_reinforce`, has no published formula: `rl_default` must be refused by name, at once.
TINKER_BASE_URL and TINKER_API_KEY say where.
"""

import json
import sys
from pathlib import Path

import datasets
import tinker

from tinker_cookbook import model_info

model_info.get_recommended_renderer_name = lambda *_: "role_colon"

folder = Path(sys.argv[1])
chosen = sys.argv[2:] or ["sl", "rl", "rl_gspo", "rl_default"]
(base,) = [one.model_name for one in tinker.ServiceClient().get_server_capabilities().supported_models]


def offline(rows):
    """`load_dataset` gives these rows, whatever it is asked for."""
    given = datasets.DatasetDict({"train": datasets.Dataset.from_list(rows), "test": datasets.Dataset.from_list(rows[:4])})
    datasets.load_dataset = lambda *_, **__: given


def metrics_of(name):
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return lines


def supervised():
    from tinker_cookbook.recipes import sl_loop

    turns = [{"role": "user", "content": "Say it."}, {"role": "assistant", "content": "red green blue"}]
    offline([{"messages": turns}] * 64)
    config = {"model_name": base, "log_path": str(folder / "sl"), "batch_size": 4, "learning_rate": 1e-2, "max_length": 256, "lora_rank": 8, "save_every": 3}
    sl_loop.main(sl_loop.Config(**config, max_steps=7))
    losses = [line["train_mean_nll"] for line in metrics_of("sl") if "train_mean_nll" in line]
    assert losses[-1] < losses[0] - 0.5, losses
    print(f"sl_loop: mean NLL {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps")


def reinforced(name, **loss):
    from tinker_cookbook.recipes import rl_loop

    offline([{"question": f"What is {i} + {i}?", "answer": f"#### {2 * i}"} for i in range(80)])
    rl_loop.get_reward = lambda response, answer: sum(letter in "aeiou" for letter in response) / max(1, len(response))
    config = {"model_name": base, "log_path": str(folder / name), "batch_size": 4, "group_size": 8, "learning_rate": 1e-2, "lora_rank": 8, "max_tokens": 16, "save_every": 3, **loss}
    rl_loop.main(rl_loop.Config(**config, max_steps=14))
    rewards = [line["reward/total"] for line in metrics_of(name) if "reward/total" in line]
    # Means of three steps: one step's reward of 32 samples varies by some hundredths.
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.05, rewards
    print(f"rl_loop, {loss['loss_fn']}: mean reward {rewards[0]:.2f} to {rewards[-1]:.2f} in {len(rewards)} steps")


def refused():
    try:
        reinforced("rl_default")
    except tinker.BadRequestError as error:
        assert "record_stability_info" in str(error) and "gspo" in str(error), error
        print(f"rl_loop with its default loss is refused: {error}")
    else:
        raise AssertionError("the loss without a published formula was taken")


recipes = {
    "sl": supervised,
    "rl": lambda: reinforced("rl", loss_fn="importance_sampling"),
    "rl_gspo": lambda: reinforced("rl_gspo", loss_fn="gspo"),
    "rl_default": refused,
}
for one in chosen:
    recipes[one]()
