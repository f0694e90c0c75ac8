"""
Plays tasksets of `verifiers` 0.4 in text: a task's prompt, one message of the policy, and the task's own rewards and
metrics over their trace. Programs, tools, users and judges of theirs are refused.
"""

import asyncio
import inspect
import sys

from longhaul_values import Wrong, messages_in, number_of, numbers_in


def is_taskset(target):
    known = sys.modules.get("verifiers.v1.taskset")
    return known is not None and isinstance(target, type) and issubclass(target, known.Taskset)


def needs_runtime(function):
    parameter = inspect.signature(function).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def why_not(target, kind, config):
    """Why tasks of this kind cannot be played in text, and what can be done."""
    from verifiers.v1 import Env, SingleAgentEnv, Task

    module = sys.modules[target.__module__]
    exported = [getattr(module, name, None) for name in getattr(module, "__all__", ())]
    own = [one for one in exported if isinstance(one, type) and issubclass(one, Env) and one is not SingleAgentEnv]
    if own:
        return "%s plays them, which calls models itself: give a taskset that one agent plays" % own[0].__name__
    tools = [*target.toolsets(config), *kind.toolsets(config.task)]
    if tools:
        names = ", ".join(type(one).__name__ for one in tools)
        return "they have servers of tools (%s): give a ToolEnv of verifiers before 0.4, or tools of Longhaul" % names
    if kind.NEEDS_CONTAINER:
        return "they need a container: use the environment harbor, or one with a sandbox of Longhaul"
    if config.task.judges:
        return "they have judges, which ask a model with a key: give rewards that are functions, or qa_judged"
    probe = kind.__new__(kind)
    probe.config = config.task
    changing = [one for one in dir(kind) if hasattr(getattr(kind, one), "intercept")]
    if changing:
        return "%s changes messages between policy and program: leave it out" % changing[0]
    steps = [getattr(probe, name) for name in ("setup", "finalize") if getattr(kind, name) is not getattr(Task, name)]
    for function in [*steps, *probe.hooks("reward"), *probe.hooks("metric")]:
        if needs_runtime(function):
            return "%s needs a runtime: give a function of the trace alone" % function.__name__
    return None


def prepared(target, given):
    """The taskset. Its tasks are not loaded: the records are. Errors: `Wrong` for one that cannot be played here."""
    from verifiers.v1 import TasksetConfig
    from verifiers.v1.utils.generic import concrete_type

    config = (concrete_type(target, TasksetConfig) or TasksetConfig).model_validate(given)
    kind = target.task_type()
    reason = why_not(target, kind, config)
    if reason:
        raise Wrong("tasks of %s (%s) cannot be played: %s" % (target.__name__, kind.__name__, reason))
    return target(config)


class TaskPlay:
    """An episode: one message."""

    def __init__(self, taskset, request):
        kind = type(taskset).task_type()
        prompt = request["prompt"]
        alone = len(prompt) == 1 and prompt[0]["role"] == "user"
        fields = {**request["extras"], "prompt": prompt[0]["content"] if alone else prompt}
        if taskset.system_prompt is not None:
            fields["system_prompt"] = taskset.system_prompt
        self.task = kind(kind.data_type().model_validate(fields), taskset.config.task)

    def init(self, prompt):
        system = self.task.data.system_prompt
        before = [{"role": "system", "content": system}] if system is not None else []
        return {"messages": [*before, *prompt], "metrics": {}}

    def trace_of(self, messages, action):
        from verifiers.v1 import AgentConfig, AgentInfo, AssistantMessage, Response, SystemMessage, Trace, TraceTask
        from verifiers.v1 import UserMessage
        from verifiers.v1.graph import prepare_turn
        from verifiers.v1.state import state_cls

        task = self.task
        made = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}
        trace = Trace(
            task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=AgentInfo(config=AgentConfig()),
        )
        answer = Response(
            id="policy",
            created=0,
            model="policy",
            message=AssistantMessage(content=action),
            finish_reason="stop",
        )
        prompt = [made[one["role"]](content=one["content"]) for one in messages_in(messages, "the prompt")]
        return trace, lambda: prepare_turn(trace, prompt).commit(answer)

    async def played(self, action):
        from verifiers.v1.utils.decorators import invoke

        data = self.task.data
        prompt = data.prompt if isinstance(data.prompt, str) else [one.model_dump() for one in data.prompt]
        trace, commit = self.trace_of(self.init(messages_in(prompt, "the prompt"))["messages"], action)
        for step, between in ((self.task.setup, commit), (self.task.finalize, lambda: trace.stop("agent_completed"))):
            await invoke(step, {"trace": trace, "runtime": None})
            between()
        trace.ok = True
        await self.task.score(trace)
        return trace

    def step(self, action):
        trace = asyncio.run(self.played(action))
        parts = {name: one.score for name, one in trace.rewards.items() if one is not None}
        reward = number_of(trace.reward, "the reward")
        return {"messages": [], "reward": reward, "done": True, "metrics": numbers_in({**trace.metrics, **parts})}

    def close(self):
        pass
