"""
Runs environments that are written in Python for Longhaul: subclasses of SkyRL-Gym's BaseTextEnv, as they are, and
environments of `verifiers` that answer messages. Requests and replies are lines of JSON on descriptors of their own, so
whatever an environment prints is no part of them. `serve IN OUT` keeps instances and answers requests by several
threads; `replay FILE OUT` makes one instance, and gives it a list of actions.
"""

import asyncio
import base64
import contextvars
import importlib
import json
import math
import os
import pickle
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.abspath(__file__)
THREADS = 64
MOST_PICKLE = 4 << 20


class Wrong(Exception):
    """The environment does not do what one must do."""


class Config(dict):
    """A configuration whose fields are attributes too, where OmegaConf is not installed."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError("the environment's config has no field %s: give it in the option config" % name)


def config_of(given):
    try:
        from omegaconf import OmegaConf

        return OmegaConf.create(given)
    except ImportError:
        return json.loads(json.dumps(given), object_hook=Config)


def target_of(spec):
    """The class or function that `module:name` is, or the function that makes an id of SkyRL-Gym's registry."""
    module_name, colon, name = spec.partition(":")
    if not colon:
        gym = importlib.import_module("skyrl_gym")
        if spec not in gym.registry:
            raise Wrong("SkyRL-Gym has no environment %r; known: %s" % (spec, ", ".join(sorted(gym.registry))))
        return lambda **given: gym.make(spec, **given)
    module = importlib.import_module(module_name)
    if hasattr(module, name):
        return getattr(module, name)
    gym = sys.modules.get("skyrl_gym")
    if gym is not None and name in gym.registry:
        return lambda **given: gym.make(name, **given)
    raise Wrong("%s has no %s" % (getattr(module, "__file__", module_name), name))


def number_of(value, what):
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Wrong("%s is %r, and must be a number" % (what, value)) from None
    if not math.isfinite(number):
        raise Wrong("%s is %r, and must be finite" % (what, value))
    return number


def numbers_in(given):
    """As SkyRL-Gym aggregates them: numbers and booleans, and nothing else."""
    if not isinstance(given, dict):
        raise Wrong("the metrics are %r, and must be a dictionary" % (given,))
    found = {}
    for name, value in given.items():
        try:
            number = float(value) if not isinstance(value, (str, bytes)) else math.nan
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[str(name)] = number
    return found


def messages_in(given, what):
    if given is None:
        return []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = []
    for one in given:
        one = one if isinstance(one, dict) else dict(one)
        role, content = one.get("role", "user"), one.get("content")
        if not isinstance(content, str):
            raise Wrong("%s has a message without text: %r" % (what, one))
        messages.append({"role": role if role in ("system", "user", "assistant") else "user", "content": content})
    return messages


class SkyRL:
    """An environment of SkyRL-Gym's kind."""

    def __init__(self, target, request):
        self.env = target(env_config=config_of(request["config"]), extras=request["extras"])
        for name in ("init", "step"):
            if not callable(getattr(self.env, name, None)):
                raise Wrong("%s has no method %s" % (type(self.env).__name__, name))

    def init(self, prompt):
        messages, _ = self.env.init(prompt)
        return {"messages": messages_in(messages, "init"), "metrics": self.metrics()}

    def step(self, action):
        output = self.env.step(action)
        changed = output.get("postprocessed_action")
        if changed is not None and changed != action:
            raise Wrong("step returned another postprocessed_action: what a policy wrote stays as it is here")
        return {
            "messages": messages_in(output["observations"], "step"),
            "reward": number_of(output["reward"], "the reward"),
            "done": bool(output["done"]),
            "metrics": self.metrics(),
        }

    def metrics(self):
        metrics = getattr(self.env, "get_metrics", None)
        return numbers_in(metrics() or {}) if metrics else {}

    def close(self):
        close = getattr(self.env, "close", None)
        if close:
            close()


episode_now = contextvars.ContextVar("episode")
loop = asyncio.new_event_loop()


def start_loop():
    if not loop.is_running():
        threading.Thread(target=loop.run_forever, daemon=True).start()


def plain(messages):
    """Messages of `verifiers`, which are objects in later versions, as dictionaries."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [one if isinstance(one, dict) else {"role": one.role, "content": one.content} for one in messages]


class Verifiers:
    """
    An environment of `verifiers` (0.1), and its rubric. Its own `rollout` runs, and waits for the policy's messages
    where it would ask a model.
    """

    def __init__(self, env, request):
        extras = request["extras"]
        self.env, self.prompt, self.sent = env, request["prompt"], 0
        self.input = {
            "prompt": request["prompt"],
            "answer": extras.get("answer", ""),
            "info": extras.get("info") or {},
            "example_id": extras.get("example_id", 0),
            **{name: extras[name] for name in ("task",) if name in extras},
        }

    def __getstate__(self):
        raise Wrong("an environment of verifiers is replayed by its actions: leave out replay: pickle")

    async def begin(self):
        self.asked, self.said = asyncio.Queue(), asyncio.Queue()
        self.task = loop.create_task(self.play())
        return await self.asked.get()

    async def play(self):
        from verifiers.types import ClientConfig

        episode_now.set(self)
        os.environ.setdefault("LONGHAUL_NO_KEY", "none")
        nowhere = ClientConfig(api_key_var="LONGHAUL_NO_KEY", api_base_url="http://127.0.0.1:9/v1")
        try:
            self.state = await self.env.rollout(self.input, nowhere, "policy", {})
            if self.state.get("error") is not None:
                raise self.state["error"]
            await self.env.rubric.score_rollout(self.state)
            await self.asked.put(None)
        except BaseException as error:
            await self.asked.put(error)

    async def ask(self, prompt):
        from verifiers.types import Response, ResponseMessage

        await self.asked.put(plain(prompt))
        content = await self.said.get()
        message = ResponseMessage(content=content, finish_reason="stop", is_truncated=False)
        return Response(id="policy", created=0, model="policy", message=message)

    async def told(self, action):
        await self.said.put(action)
        return await self.asked.get()

    def wait(self, promise):
        asked = asyncio.run_coroutine_threadsafe(promise, loop).result()
        if isinstance(asked, BaseException):
            raise asked
        return asked

    def init(self, prompt):
        asked = self.wait(self.begin())
        if asked is None:
            raise Wrong("the rollout ended before the policy was asked")
        self.sent = len(asked)
        return {"messages": messages_in(asked, "the prompt"), "metrics": {}}

    def step(self, action):
        asked = self.wait(self.told(action))
        if asked is not None:
            new = asked[self.sent + 1 :]
            self.sent = len(asked)
            return {"messages": messages_in(new, "env_response"), "reward": 0.0, "done": False, "metrics": {}}
        reward = number_of(self.state["reward"], "the reward")
        metrics = numbers_in(self.state.get("metrics") or {})
        return {"messages": [], "reward": reward, "done": True, "metrics": metrics}

    def close(self):
        loop.call_soon_threadsafe(self.task.cancel)


async def asked_of_policy(state, prompt, *_, **__):
    return await episode_now.get().ask(prompt)


loaded = {}


def is_verifiers(request):
    return request["env"].endswith(":load_environment")


def key_of(request):
    return json.dumps([request["env"], request["config"]], sort_keys=True)


def prepare(request):
    """Imports what a request names, in the main thread: some libraries set up signal handlers when they are loaded."""
    target = target_of(request["env"])
    if request["do"] == "check" or not is_verifiers(request) or key_of(request) in loaded:
        return
    env = target(**request["config"])
    for name in ("rollout", "get_model_response", "rubric"):
        if not hasattr(env, name):
            raise Wrong("%s has no %s: environments of verifiers 0.1 are known here" % (type(env).__name__, name))
    env.get_model_response = asked_of_policy
    start_loop()
    loaded[key_of(request)] = env


def instance_of(request):
    if is_verifiers(request):
        return Verifiers(loaded[key_of(request)], request)
    return SkyRL(target_of(request["env"]), request)


def place_of(trace):
    """`FILE:LINE` of the innermost frame that is not this program's."""
    frames = [frame for frame in traceback.extract_tb(trace) if os.path.abspath(frame.filename) != HERE]
    own = [frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename]
    chosen = (own or frames or [None])[-1]
    return "%s:%d" % (os.path.abspath(chosen.filename), chosen.lineno) if chosen else None


def failure_of(error):
    kind, message = type(error).__name__, str(error)[:2000]
    text = message if isinstance(error, Wrong) else "%s: %s" % (kind, message)
    return {"failed": text, "place": place_of(error.__traceback__)}


instances = {}


def pickled(instance):
    data = pickle.dumps(instance)
    if len(data) > MOST_PICKLE:
        raise Wrong("its pickle has %d bytes, and at most %d are recorded" % (len(data), MOST_PICKLE))
    return base64.b64encode(data).decode()


def answer(request):
    do, name = request["do"], request.get("instance")
    if do == "check":
        return {}
    if do == "init":
        instances[name] = instance_of(request)
        reply = instances[name].init(request["prompt"])
    elif do == "load":
        instances[name] = pickle.loads(base64.b64decode(request["pickle"]))
        return {}
    elif do == "step":
        reply = instances[name].step(request["action"])
    else:
        instance = instances.pop(name, None)
        if instance is not None:
            instance.close()
        return {}
    return {**reply, "pickle": pickled(instances[name])} if request.get("pickled") else reply


def tried(work, request):
    try:
        return work(request)
    except BaseException as error:
        return failure_of(error)


def serve(requests, replies):
    lock = threading.Lock()

    def reply(request, fields):
        text = json.dumps({"id": request["id"], **fields})
        with lock:
            replies.write(text + "\n")
            replies.flush()

    with ThreadPoolExecutor(THREADS) as pool:
        for line in requests:
            request = json.loads(line)
            failure = tried(prepare, request) if request["do"] in ("check", "init") else None
            if failure:
                reply(request, failure)
            else:
                pool.submit(lambda request=request: reply(request, tried(answer, request)))
        os._exit(0)


def replay(request, replies):
    replied = []
    if request.get("pickle"):
        replied.append(tried(answer, {"do": "load", "instance": 1, "pickle": request["pickle"]}))
    else:
        first = {**request, "do": "init", "instance": 1}
        replied.append(tried(prepare, first) or tried(answer, first))
    for action in request["actions"]:
        if "failed" in replied[-1]:
            break
        replied.append(tried(answer, {**request, "do": "step", "instance": 1, "action": action}))
    if replied[-1].get("done"):
        tried(answer, {"do": "close", "instance": 1})
    replies.write("\n" + json.dumps(replied) + "\n")
    replies.flush()


def main():
    mode, source, out, *path = sys.argv[1:]
    sys.path[0:1] = path
    sys.argv[1:] = []
    if mode == "serve":
        serve(os.fdopen(int(source)), os.fdopen(int(out), "w"))
    with open(source) as file:
        request = json.load(file)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    replies.write("\n" + out)
    replay(request, replies)


if __name__ == "__main__":
    main()
