"""Environments of `verifiers` before 0.4 for python-environments.ts: a question, a guess in three turns, and a tool."""

import verifiers as vf
from datasets import Dataset


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def load_environment(kind="single", **kw):
    ds = Dataset.from_list([{"question": "q", "answer": "7"}])
    async def exact(completion, answer, **k):
        said = [one.content for one in completion if one.role == "assistant"]
        return 1.0 if said[-1].strip() == answer else 0.0
    async def asked(state, **k):
        return float(len(state["trajectory"]))
    rubric = vf.Rubric(funcs=[exact, asked], weights=[1.0, 0.0])
    if kind == "single":
        return vf.SingleTurnEnv(dataset=ds, rubric=rubric)
    if kind == "tools":
        return vf.ToolEnv(dataset=ds, rubric=rubric, tools=[add], max_turns=5)
    class Guess(vf.MultiTurnEnv):
        async def setup_state(self, state):
            state["tries"] = 0
        async def env_response(self, messages, state, **k):
            state["tries"] += 1
            if messages[-1].content == "7":
                state["final_env_response"] = [{"role": "user", "content": "right"}]
                return state["final_env_response"]
            return [{"role": "user", "content": "try %d was wrong" % state["tries"]}]
    return Guess(dataset=ds, rubric=rubric, max_turns=3)
