"""Tokens per second through a Tinker server, with Thinking Machines' own SDK.

    python tinker_speed.py

TINKER_BASE_URL and TINKER_API_KEY say where. Rank 8: `forward_backward` of 8 sequences of 128 tokens, one call after
the other and with `optim_step` in flight; samples of 64 tokens, 16 and 64 at once, by clients of one saved adapter.
Medians over rounds; the first round of each is left out, since servers compile then. Prints a line of JSON:
`tokensPerSecond`, and `clientMs`, the processor milliseconds of this process alone per 1,000 tokens.
"""

import json
import os
import statistics
import time
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import tinker
from tinker import types

SEQUENCES, TOKENS, ROUNDS, SAMPLED = 8, 128, 6, 64
random = np.random.default_rng(1)


def datum():
    ids = random.integers(3, 500, TOKENS + 1)
    return types.Datum(
        model_input=types.ModelInput.from_ints([int(i) for i in ids[:-1]]),
        loss_fn_inputs={"target_tokens": ids[1:].astype(np.int64), "weights": np.ones(TOKENS, dtype=np.float32)},
    )


used = {}


def rate(name, tokens, call):
    times = []
    for round in range(ROUNDS + 1):
        begun = time.perf_counter()
        if round == 1:
            own = time.process_time()
        call()
        if round > 0:
            times.append(time.perf_counter() - begun)
    used[name] = round_((time.process_time() - own) * 1e6 / (ROUNDS * tokens))
    return round_(tokens / statistics.median(times))


def round_(value):
    return float(f"{value:.4g}")


def main():
    service = tinker.ServiceClient()
    name = os.environ.get("MODEL") or service.get_server_capabilities().supported_models[0].model_name
    client = service.create_lora_training_client(base_model=name, rank=8)
    data = [datum() for _ in range(SEQUENCES)]
    adam = types.AdamParams(learning_rate=1e-4)

    def one():
        client.forward_backward(data, "cross_entropy").result()

    def pipelined():
        waiting = []
        for _ in range(4):
            waiting += [client.forward_backward(data, "cross_entropy"), client.optim_step(adam)]
        for future in waiting:
            future.result()

    found = {
        name: rate(name, tokens, call)
        for name, tokens, call in (
            ("forwardBackward", SEQUENCES * TOKENS, one),
            ("forwardBackwardAndOptimStepPipelined", 4 * SEQUENCES * TOKENS, pipelined),
        )
    }
    sampler = client.save_weights_and_get_sampling_client("speed")
    prompt = types.ModelInput.from_ints([5, 9, 13, 17, 21, 25, 29, 33])

    def samples(many):
        def call():
            futures = [
                sampler.sample(
                    prompt=prompt,
                    num_samples=1,
                    sampling_params=types.SamplingParams(max_tokens=SAMPLED, temperature=1.0, seed=i, stop=[]),
                )
                for i in range(many)
            ]
            for future in futures:
                future.result()

        return call

    for many in (1, 16, 64):
        name = f"sample{many}AtOnce"
        found[name] = rate(name, many * SAMPLED, samples(many))
    print(json.dumps({"sdk": tinker.__version__, "tokensPerSecond": found, "clientMs": used}), flush=True)


main()
