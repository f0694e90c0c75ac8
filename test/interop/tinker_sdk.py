"""Black-box checks of a Tinker server with Thinking Machines' own SDK (PyPI tinker 0.38.0).

    python tinker_sdk.py STATE [first|second]

`first` (default) trains, samples, saves, lists, and makes mistakes; `second` comes after the server was killed and
started again, and reads what `first` left in the file STATE. Prints a line per check; exits with 1 if any failed.
TINKER_BASE_URL and TINKER_API_KEY say where. Checks that need torch are skipped without it.
"""

import json
import math
import os
import sys
import time
import traceback
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import tinker
from tinker import types

results = []


def check(name, function):
    begun = time.time()
    try:
        function()
        results.append((name, None))
    except Exception as error:
        results.append((name, error))
        if os.environ.get("VERBOSE"):
            traceback.print_exc()
    state = "ok" if results[-1][1] is None else f"FAILED: {str(results[-1][1])[:300]}"
    print(f"{name}: {state} ({time.time() - begun:.1f} s)", flush=True)


def near(a, b, tolerance=1e-4):
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
    assert np.allclose(a, b, atol=tolerance, rtol=tolerance), f"{a} is not near {b}"


def refused(call, *words, within=20):
    begun = time.time()
    try:
        call()
    except Exception as error:
        took = time.time() - begun
        assert took < within, f"refused after {took:.0f} s"
        text = str(error)
        assert all(word.lower() in text.lower() for word in words), text
        return error
    raise AssertionError("it was accepted")


def datum(tokens, targets, **inputs):
    arrays = {name: np.asarray(value, dtype=np.float32) for name, value in inputs.items()}
    return types.Datum(
        model_input=types.ModelInput.from_ints(list(tokens)),
        loss_fn_inputs={"target_tokens": np.asarray(targets, dtype=np.int64), **arrays},
    )


def logprobs(output):
    return [np.asarray(one["logprobs"].data) for one in output.loss_fn_outputs]


def prompt(tokens):
    return types.ModelInput.from_ints(list(tokens))


TEXT = [5, 9, 13, 17, 21, 25, 29, 33]
BATCH = [(TEXT[:-1], TEXT[1:]), ([7, 11, 15], [11, 15, 19])]


def batch(weight=1.0):
    return [datum(x, y, weights=[weight] * len(x)) for x, y in BATCH]


class First:
    def __init__(self, state):
        self.state = state
        self.service = tinker.ServiceClient()
        self.rest = self.service.create_rest_client()
        self.base = self.service.get_server_capabilities().supported_models[0].model_name

    def new(self, rank=4, seed=1, **rest):
        return self.service.create_lora_training_client(base_model=self.base, rank=rank, seed=seed, **rest)

    def capabilities(self):
        (model,) = self.service.get_server_capabilities().supported_models
        assert model.max_context_length > 16 and model.trainable and model.sampleable

    def info(self):
        info = self.new(rank=8).get_info()
        assert info.lora_rank == 8 and info.is_lora and info.model_data.model_name == self.base

    def tokenizer(self):
        tokenizer = self.new().get_tokenizer()
        assert tokenizer.decode(tokenizer.encode("hello")) == "hello"
        sampler = self.service.create_sampling_client(base_model=self.base)
        assert sampler.get_tokenizer().encode("hello") == tokenizer.encode("hello")

    def sums(self):
        client = self.new()
        one = client.forward(batch(1.0), "cross_entropy").result()
        two = client.forward(batch(2.0), "cross_entropy").result()
        near(one.metrics["loss:sum"], -sum(x.sum() for x in logprobs(one)))
        near(two.metrics["loss:sum"], 2 * one.metrics["loss:sum"])
        assert [len(x) for x in logprobs(one)] == [len(x) for x, _ in BATCH]

    def pure_forward(self):
        client = self.new()
        before = logprobs(client.forward(batch(), "cross_entropy").result())
        client.optim_step(types.AdamParams(learning_rate=0.1)).result()
        after = logprobs(client.forward(batch(), "cross_entropy").result())
        for a, b in zip(before, after):
            near(a, b, 1e-6)

    def policy_losses(self):
        client = self.new()
        x, y = BATCH[0]
        p = logprobs(client.forward([datum(x, y)], "cross_entropy").result())[0]
        q = p + np.linspace(-0.6, 0.6, len(p))
        a = np.linspace(-1, 1, len(p)) + 0.3
        r = np.exp(p - q)
        low, high = 0.9, 1.1
        clipped = np.clip(r, low, high)
        wanted = {
            "importance_sampling": -(r * a).sum(),
            "ppo": -np.minimum(r * a, clipped * a).sum(),
            "cispo": -(clipped * p * a).sum(),
            "dro": -(p * a - 0.05 / 2 * (p - q) ** 2).sum(),
        }
        mask = np.arange(len(p)) >= len(p) // 2
        sequence = np.exp((p - q)[mask].mean())
        wanted["gspo"] = -np.minimum(sequence * a, np.clip(sequence, low, high) * a).sum()
        configs = {"importance_sampling": None, "dro": {"beta": 0.05}}
        for loss, value in wanted.items():
            config = configs.get(loss, {"clip_low_threshold": low, "clip_high_threshold": high})
            more = {"sequence_ratio_mask": mask.astype(np.float32)} if loss == "gspo" else {}
            one = datum(x, y, logprobs=q, advantages=a, **more)
            got = client.forward_backward([one], loss, loss_fn_config=config).result()
            near(got.metrics["loss:sum"], value, 1e-3)
            near(logprobs(got)[0], p, 1e-4)

    def accumulates(self):
        def trained(groups):
            client = self.new()
            for group in groups:
                client.forward_backward(group, "cross_entropy").result()
            client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
            return logprobs(client.forward(batch(), "cross_entropy").result())

        whole, parts = trained([batch()]), trained([[one] for one in batch()])
        for a, b in zip(whole, parts):
            near(a, b, 1e-3)

    def clears(self):
        client = self.new()
        client.forward_backward(batch(), "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=1e-3)).result()
        norm = client.optim_step(types.AdamParams(learning_rate=0)).result().metrics["grad_norm:mean"]
        assert norm == 0, norm

    def memorises(self):
        """At one of two learning rates: a model of pairs needs a high one, at which a transformer learns only frequencies."""
        tokens = []
        for rate, steps in ((2e-2, 40), (1e-3, 80)):
            client = self.new(rank=8)
            first = client.forward(batch(), "cross_entropy").result().metrics["loss:sum"]
            for _ in range(steps):
                forward = client.forward_backward(batch(), "cross_entropy")
                step = client.optim_step(types.AdamParams(learning_rate=rate))
                forward.result(), step.result()
            trained = client.forward(batch(), "cross_entropy").result()
            assert trained.metrics["loss:sum"] < 0.5 * first, f"{first} to {trained.metrics}"
            sampler = client.save_weights_and_get_sampling_client()
            # What samples is what was trained.
            near(sampler.compute_logprobs(prompt(TEXT)).result()[1:], logprobs(trained)[0], 1e-3)
            params = types.SamplingParams(max_tokens=3, temperature=0, stop=[])
            tokens = list(sampler.sample(prompt(TEXT[:3]), 1, params).result().sequences[0].tokens)
            if tokens == TEXT[3:6]:
                return
        raise AssertionError(tokens)

    def adam(self):
        def moved(**adam):
            client = self.new()
            client.forward_backward(batch(), "cross_entropy").result()
            client.optim_step(types.AdamParams(learning_rate=1e-2, **adam)).result()
            return client.forward(batch(), "cross_entropy").result().metrics["loss:sum"]

        assert moved(eps=10.0) != moved()
        near(moved(), moved(), 1e-6)
        assert moved(grad_clip_norm=1e-9, eps=1e-3) != moved(eps=1e-3)

    def chunks(self):
        client = self.new()
        data = [datum([5 + i % 20, 6], [7, 8], weights=[1, 1]) for i in range(1100)]
        got = client.forward(data, "cross_entropy").result()
        assert len(got.loss_fn_outputs) == 1100
        near(got.metrics["loss:sum"], -sum(x.sum() for x in logprobs(got)), 1e-3)

    def custom(self):
        try:
            import torch
        except ImportError:
            print("custom loss: skipped, no torch")
            return
        client, direct = self.new(), self.new()

        def loss(data, rows):
            total = sum((row * row).sum() for row in rows)
            return total, {"mine:sum": float(total)}

        got = client.forward_backward_custom(batch(), loss).result()
        rows = logprobs(direct.forward(batch(), "cross_entropy").result())
        near(got.metrics["mine:sum"], sum((row**2).sum() for row in rows), 1e-3)
        linear = [datum(x, y, weights=-2 * row) for (x, y), row in zip(BATCH, rows)]
        direct.forward_backward(linear, "cross_entropy").result()
        for one in (client, direct):
            one.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        a, b = (logprobs(one.forward(batch(), "cross_entropy").result()) for one in (client, direct))
        for x, y in zip(a, b):
            near(x, y, 1e-4)

    def samples(self):
        sampler = self.service.create_sampling_client(base_model=self.base)
        params = types.SamplingParams(max_tokens=8, temperature=1, seed=3, stop=[])
        one = sampler.sample(prompt(TEXT), 4, params).result()
        assert len(one.sequences) == 4 and all(len(s.tokens) == 8 and s.stop_reason == "length" for s in one.sequences)
        assert len({tuple(s.tokens) for s in one.sequences}) > 1
        again = sampler.sample(prompt(TEXT), 4, params).result()
        assert [list(s.tokens) for s in one.sequences] == [list(s.tokens) for s in again.sequences]
        for sequence in one.sequences:
            assert len(sequence.logprobs) == 8 and all(x <= 0 for x in sequence.logprobs)

    def stops(self):
        sampler = self.service.create_sampling_client(base_model=self.base)
        free = types.SamplingParams(max_tokens=16, temperature=1, seed=5, stop=[])
        tokens = list(sampler.sample(prompt(TEXT), 1, free).result().sequences[0].tokens)
        stop = tokens[4]
        held = types.SamplingParams(max_tokens=16, temperature=1, seed=5, stop=[stop])
        got = sampler.sample(prompt(TEXT), 1, held).result().sequences[0]
        assert got.stop_reason == "stop"
        assert list(got.tokens) == tokens[: tokens.index(stop) + 1], got.tokens

    def scores(self):
        client = self.new()
        sampler = client.save_weights_and_get_sampling_client()
        got = sampler.compute_logprobs(prompt(TEXT)).result()
        assert got[0] is None and len(got) == len(TEXT)
        trained = logprobs(client.forward([datum(TEXT[:-1], TEXT[1:])], "cross_entropy").result())[0]
        near(got[1:], trained, 1e-3)
        params = types.SamplingParams(max_tokens=3, temperature=0, stop=[])
        full = sampler.sample(
            prompt(TEXT), 1, params, include_prompt_logprobs=True, topk_prompt_logprobs=3, topk_sample_logprobs=2
        ).result()
        assert len(full.topk_prompt_logprobs) == len(TEXT)
        best = full.sequences[0].topk_logprobs
        assert [row[0][0] for row in best] == list(full.sequences[0].tokens)

    def saves(self):
        client = self.new()
        client.forward_backward(batch(), "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        path = client.save_state("one", ttl_seconds=7200, user_metadata={"k": "v"}).result().path
        client.forward_backward(batch()[:1], "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        wanted = logprobs(client.forward(batch(), "cross_entropy").result())

        def goes_on(other):
            # Other data than before: the moments then show.
            other.forward_backward(batch()[:1], "cross_entropy").result()
            other.optim_step(types.AdamParams(learning_rate=1e-2)).result()
            return logprobs(other.forward(batch(), "cross_entropy").result())

        exact = goes_on(self.service.create_training_client_from_state_with_optimizer(path))
        for a, b in zip(wanted, exact):
            near(a, b, 1e-6)
        without = goes_on(self.service.create_training_client_from_state(path))
        assert any(np.abs(a - b).max() > 1e-7 for a, b in zip(wanted, without))
        refused(lambda: client.save_state("one").result(), "one")
        client.save_state("one", overwrite=True).result()
        self.state["path"] = path

    def frozen(self):
        client = self.new()
        path = client.save_weights_for_sampler("s1").result().path
        sampler = self.service.create_sampling_client(model_path=path)
        before = sampler.compute_logprobs(prompt(TEXT)).result()
        client.forward_backward(batch(), "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=0.1)).result()
        near(sampler.compute_logprobs(prompt(TEXT)).result()[1:], before[1:], 1e-6)
        after = client.save_weights_and_get_sampling_client().compute_logprobs(prompt(TEXT)).result()
        assert np.abs(np.subtract(after[1:], before[1:])).max() > 1e-3

    def lists(self):
        client = self.new()
        run = client.model_id
        client.save_state("a", user_metadata={"k": "v"}).result()
        client.save_weights_for_sampler("b").result()
        listed = self.rest.list_checkpoints(run).result().checkpoints
        assert sorted(c.checkpoint_id for c in listed) == ["sampler_weights/b", "weights/a"]
        shown = self.rest.get_training_run(run).result()
        assert shown.base_model == self.base and shown.lora_rank == 4 and shown.last_checkpoint is not None
        assert run in [r.training_run_id for r in self.rest.list_training_runs(limit=1000).result().training_runs]
        assert len(self.rest.list_user_checkpoints(limit=100).result().checkpoints) >= 2
        info = self.rest.get_weights_info_by_tinker_path(f"tinker://{run}/weights/a").result()
        assert info.base_model == self.base and info.lora_rank == 4
        session = self.service.holder.get_session_id()
        assert session in self.rest.list_sessions(limit=1000).result().sessions
        assert run in self.rest.get_session(session).result().training_run_ids
        self.rest.publish_checkpoint_from_tinker_path(f"tinker://{run}/weights/a").result()
        self.rest.set_checkpoint_ttl_from_tinker_path(f"tinker://{run}/weights/a", 7200).result()
        (a,) = [c for c in self.rest.list_checkpoints(run).result().checkpoints if c.checkpoint_id == "weights/a"]
        assert a.public and a.expires_at is not None and a.user_metadata == {"k": "v"}
        self.rest.delete_checkpoint(run, "weights/a").result()
        assert [c.checkpoint_id for c in self.rest.list_checkpoints(run).result().checkpoints] == ["sampler_weights/b"]

    def mistakes(self):
        refused(lambda: self.service.create_lora_training_client(base_model="no/model").result(), "no/model")
        refused(lambda: self.new(rank=0).get_info(), "rank")
        client = self.new()
        cases = [
            ([datum([5, 6], [7], weights=[1])], "cross_entropy", ["target_tokens"]),
            ([datum([5], [10_000_000])], "cross_entropy", ["10000000"]),
            ([datum([5], [6])], "ppo", ["logprobs"]),
            ([datum([5], [6], weights=[math.nan])], "cross_entropy", ["NonFiniteInTensor"]),
        ]
        for data, loss, words in cases:
            refused(lambda: self.new().forward_backward(data, loss).result(), *words)
        sampler = self.service.create_sampling_client(base_model=self.base)
        params = types.SamplingParams(max_tokens=10_000_000)
        refused(lambda: sampler.sample(prompt(TEXT), 1, params).result(), "context window")
        refused(lambda: self.service.create_sampling_client(model_path="tinker://x:train:0/weights/y").result(), "exist")
        refused(lambda: client.save_state("a", ttl_seconds=5).result(), "ttl")
        other = tinker.ServiceClient(api_key="tml-somebody-else").create_rest_client()
        refused(lambda: other.get_training_run(client.model_id).result(), "404")

    def many(self):
        sampler = self.service.create_sampling_client(base_model=self.base)
        params = types.SamplingParams(max_tokens=4, stop=[])
        futures = [sampler.sample(prompt(TEXT), 1, params) for _ in range(64)]
        assert all(len(f.result().sequences[0].tokens) == 4 for f in futures)

    def tenants(self):
        one, two = self.new(rank=4), self.new(rank=8)
        before = logprobs(two.forward(batch(), "cross_entropy").result())
        one.forward_backward(batch(), "cross_entropy").result()
        one.optim_step(types.AdamParams(learning_rate=0.1)).result()
        for a, b in zip(before, logprobs(two.forward(batch(), "cross_entropy").result())):
            near(a, b, 1e-6)

    def leaves(self):
        """A gradient that is not applied, weights that are not saved, and futures that nobody has read."""
        client = self.new(seed=9)
        client.forward_backward(batch(), "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        before = logprobs(client.forward(batch(), "cross_entropy").result())
        client.forward_backward(batch(2.0), "cross_entropy").result()
        sampler = self.service.create_sampling_client(base_model=self.base).result()
        sampled = sampler.sample(prompt(TEXT), 2, types.SamplingParams(max_tokens=6, seed=4, stop=[])).result()
        self.state.update(
            model=client.model_id,
            # Numbers that were used: create 0, then four requests.
            next=5,
            logprobs=[list(map(float, x)) for x in before],
            sampler=sampler._sampling_session_id,
            sampled=[list(map(int, s.tokens)) for s in sampled.sequences],
        )


class Raw:
    """The wire itself, for what the SDK has no call for: to go on with a model after its client is gone."""

    def __init__(self):
        import httpx

        self.client = httpx.Client(
            base_url=os.environ["TINKER_BASE_URL"],
            headers={"X-API-Key": os.environ["TINKER_API_KEY"]},
            timeout=60,
        )

    def post(self, path, body):
        got = self.client.post(f"/api/v1/{path}", json=body)
        assert got.status_code == 200, got.text
        return got.json()

    def result(self, path, body):
        future = self.post(path, body)
        for _ in range(20):
            got = self.post("retrieve_future", {"request_id": future["request_id"]})
            if got.get("type") != "try_again":
                return got
        raise AssertionError("no result")


class Second:
    def __init__(self, state):
        self.state = state
        self.raw = Raw()

    def step(self, seq):
        adam = {"learning_rate": 1e-2}
        return self.raw.result("optim_step", {"model_id": self.state["model"], "seq_id": seq, "adam_params": adam})

    def forward(self, seq):
        data = [
            {
                "model_input": {"chunks": [{"type": "encoded_text", "tokens": x}]},
                "loss_fn_inputs": {"target_tokens": {"data": y, "dtype": "int64", "shape": [len(y)]}},
            }
            for x, y in BATCH
        ]
        body = {"model_id": self.state["model"], "seq_id": seq}
        got = self.raw.result("forward", {**body, "forward_input": {"data": data, "loss_fn": "cross_entropy"}})
        return [one["logprobs"]["data"] for one in got["loss_fn_outputs"]]

    def keeps_weights(self):
        for a, b in zip(self.forward(self.state["next"]), self.state["logprobs"]):
            near(a, b, 1e-6)

    def keeps_gradient(self):
        norm = self.step(self.state["next"] + 1)["metrics"]["grad_norm:mean"]
        assert norm > 0, norm
        moved = self.forward(self.state["next"] + 2)
        assert any(np.abs(np.subtract(a, b)).max() > 1e-4 for a, b in zip(moved, self.state["logprobs"]))

    def keeps_samplers(self):
        body = {
            "sampling_session_id": self.state["sampler"],
            "seq_id": 1000,
            "num_samples": 2,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": TEXT}]},
            "sampling_params": {"max_tokens": 6, "seed": 4, "stop": []},
        }
        got = self.raw.result("asample", body)
        assert [s["tokens"] for s in got["sequences"]] == self.state["sampled"]

    def keeps_checkpoints(self):
        service = tinker.ServiceClient()
        client = service.create_training_client_from_state_with_optimizer(self.state["path"])
        assert client.forward(batch(), "cross_entropy").result().metrics["loss:sum"] > 0


CHECKS = {
    "first": (
        First,
        "capabilities info tokenizer sums pure_forward policy_losses accumulates clears memorises adam chunks custom "
        "samples stops scores saves frozen lists mistakes many tenants leaves",
    ),
    "second": (Second, "keeps_weights keeps_gradient keeps_samplers keeps_checkpoints"),
}


def main():
    file, part = sys.argv[1], (sys.argv[2:] or ["first"])[0]
    state = json.load(open(file)) if os.path.exists(file) else {}
    kind, names = CHECKS[part]
    checks = kind(state)
    only = os.environ.get("ONLY")
    for name in only.split() if only else names.split():
        check(name, getattr(checks, name))
    json.dump(state, open(file, "w"))
    failed = [name for name, error in results if error is not None]
    print(f"{len(results) - len(failed)} of {len(results)} passed" + (f"; failed: {', '.join(failed)}" if failed else ""))
    sys.stdout.flush()
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
