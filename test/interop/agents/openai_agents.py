"""OpenAI's Agents SDK, by the Responses API, which is its default. `python3 openai_agents.py TASK`."""

import os
import subprocess
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled


@function_tool
def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20).stdout


set_tracing_disabled(True)
agent = Agent(name="solver", instructions="You use bash.", tools=[bash], model=os.environ["OPENAI_MODEL"])
print(Runner.run_sync(agent, sys.argv[1], max_turns=6).final_output)
