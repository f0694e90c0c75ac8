"""
Runs environments that are written in Python for Longhaul: subclasses of SkyRL-Gym's BaseTextEnv, as they are, and
environments and tasksets of `verifiers`. Requests and replies are lines of JSON on descriptors of their own, so
whatever an environment prints is no part of them. `serve IN OUT` keeps instances and answers requests by several
threads; `replay FILE OUT` makes one instance, and gives it a list of actions.
"""

import base64
import importlib
import importlib.metadata
import json
import os
import pickle
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

# Nothing is written beside the programs, which may be in a package.
written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
import longhaul_taskset
import longhaul_verifiers
from longhaul_values import Wrong, messages_in, number_of, numbers_in

sys.dont_write_bytecode = written
HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = 64
MOST_PICKLE = 4 << 20


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


# Environments of `verifiers` by what made them, each with what plays its episodes.
loaded = {}


def key_of(request):
    return json.dumps([request["env"], request["config"]], sort_keys=True)


def load(request):
    target = target_of(request["env"])
    if key_of(request) in loaded:
        return
    if request["env"].endswith(":load_environment"):
        env = longhaul_verifiers.prepared(target(**request["config"]))
        loaded[key_of(request)] = longhaul_verifiers.Rollout, env
    elif longhaul_taskset.is_taskset(target):
        taskset = longhaul_taskset.prepared(target, request["config"])
        loaded[key_of(request)] = longhaul_taskset.TaskPlay, taskset


def of_other_version(error):
    """What the error means if version 0.4 is installed, which has none of the classes of the versions before."""
    try:
        version = importlib.metadata.version("verifiers")
    except importlib.metadata.PackageNotFoundError:
        return None
    if "verifiers" not in str(error) or version.startswith(("0.1.", "0.2.", "0.3.")):
        return None
    return Wrong(
        "%s: this environment is for verifiers before 0.4, and %s is installed: pip install 'verifiers<0.4'"
        % (error, version)
    )


def prepare(request):
    """Imports what a request names, in the main thread: some libraries set up signal handlers when they are loaded."""
    try:
        load(request)
    except (AttributeError, ImportError) as error:
        meant = of_other_version(error)
        if meant is None:
            raise
        raise meant from error


def instance_of(request):
    if key_of(request) not in loaded:
        return SkyRL(target_of(request["env"]), request)
    play, env = loaded[key_of(request)]
    return play(env, request)


def place_of(trace):
    """`FILE:LINE` of the innermost frame that is not this program's."""
    all_frames = traceback.extract_tb(trace)
    frames = [frame for frame in all_frames if os.path.dirname(os.path.abspath(frame.filename)) != HERE]
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
