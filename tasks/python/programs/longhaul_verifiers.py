"""
Plays environments of `verifiers` up to 0.3, made by `load_environment`. Their own `rollout` runs, and waits for the
policy's messages where it would ask a model; their rubric scores the end.
"""

import asyncio
import contextvars
import os
import threading

from longhaul_calls import calls_in, field, in_text, schemas_of, with_tools
from longhaul_values import Wrong, messages_in, number_of, numbers_in

episode_now = contextvars.ContextVar("episode")
loop = asyncio.new_event_loop()

# Environments whose agent or tools need what only a service with a key has, or that do not ask the policy themselves.
REFUSED = {
    "EnvGroup": "give each of its environments as a source of its own, with its records",
    "SandboxEnv": "its sandboxes are a service's; give the task tools in Longhaul's sandbox, as code_interpreter",
    "CliAgentEnv": "its agent is a program; let a program be the agent in Longhaul's sandbox (agent external)",
    "BrowserEnv": "its browser is a service's; give the task tools in Longhaul's sandbox",
}


def group_functions_of(rubric):
    own = [getattr(one, "__name__", repr(one)) for one in getattr(rubric, "funcs", []) if rubric._is_group_func(one)]
    return own + [name for one in getattr(rubric, "rubrics", []) for name in group_functions_of(one)]


def prepared(env):
    """The environment, which asks the policy from now on. Errors: `Wrong` for one that cannot be played here."""
    kind = type(env).__name__
    for name in ("rollout", "get_model_response", "rubric"):
        if not hasattr(env, name):
            raise Wrong(
                "%s has no %s: load_environment must return an environment of verifiers 0.1 to 0.3; of version 0.4, "
                "give the taskset (env: module:Taskset)" % (kind, name)
            )
    for one in type(env).__mro__:
        if one.__name__ in REFUSED:
            as_one = "" if one.__name__ == kind else " (%s)" % one.__name__
            raise Wrong("%s%s of verifiers cannot be played: %s" % (kind, as_one, REFUSED[one.__name__]))
    if getattr(env, "requires_group_rollouts", False):
        raise Wrong(
            "the rubric of %s scores a group of rollouts (%s), and a rollout is scored alone here: give it functions "
            "of one rollout" % (kind, ", ".join(group_functions_of(env.rubric)))
        )
    env.get_model_response = asked_of_policy
    if not loop.is_running():
        threading.Thread(target=loop.run_forever, daemon=True).start()
    return env


async def asked_of_policy(state, prompt, *_, tool_defs=None, **__):
    tools = tool_defs if tool_defs is not None else state.get("tool_defs")
    return await episode_now.get().ask(prompt, schemas_of(tools))


def with_system(env, prompt):
    """As `verifiers` prepares its own records: the environment's system prompt, unless there is one."""
    system = getattr(env, "system_prompt", None)
    if not system or (prompt and prompt[0]["role"] == "system"):
        return prompt
    return [{"role": "system", "content": system}, *prompt]


class Rollout:
    """An episode."""

    def __init__(self, env, request):
        extras = request["extras"]
        self.env, self.turns = env, 0
        self.input = {
            "prompt": with_system(env, request["prompt"]),
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

    async def ask(self, prompt, schemas):
        from verifiers.types import Response, ResponseMessage, ToolCall

        await self.asked.put((list(prompt) if not isinstance(prompt, str) else prompt, schemas))
        action = await self.said.get()
        content, calls = calls_in(action) if schemas else (action, [])
        self.turns += 1
        made = [
            ToolCall(id="call_%d_%d" % (self.turns, i), name=name, arguments=arguments)
            for i, (name, arguments) in enumerate(calls)
        ]
        message = ResponseMessage(
            content=content,
            tool_calls=made or None,
            finish_reason="tool_calls" if made else "stop",
            is_truncated=False,
        )
        return Response(id="policy", created=0, model="policy", message=message)

    async def answered(self, action):
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
        prompt, self.schemas = asked
        self.read, self.count = in_text(prompt), 1 if isinstance(prompt, str) else len(prompt)
        return {"messages": with_tools(messages_in(self.read, "the prompt"), self.schemas), "metrics": {}}

    def new_messages(self, asked, schemas):
        """Those after the policy's message. What it has read must be as it was."""
        kind, before = type(self.env).__name__, self.count
        if schemas != self.schemas:
            raise Wrong("%s changed its tools in a rollout: the policy has read the first ones" % kind)
        after = asked[before:]
        if in_text(asked[:before]) != self.read or not after or field(after[0], "role") != "assistant":
            raise Wrong("%s changed messages that the policy has read: env_response may only add some" % kind)
        self.read, self.count = in_text(asked), len(asked)
        return messages_in(in_text(after[1:]), "env_response")

    def step(self, action):
        asked = self.wait(self.answered(action))
        if asked is not None:
            return {"messages": self.new_messages(*asked), "reward": 0.0, "done": False, "metrics": {}}
        reward = number_of(self.state["reward"], "the reward")
        metrics = numbers_in(self.state.get("metrics") or {})
        return {"messages": [], "reward": reward, "done": True, "metrics": metrics}

    def close(self):
        loop.call_soon_threadsafe(self.task.cancel)
