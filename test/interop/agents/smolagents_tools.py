"""smolagents' agent with tools, by chat completions. `python3 smolagents_tools.py TASK`."""

import os
import subprocess
import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def bash(command: str) -> str:
    """Runs a command.

    Args:
        command: The command.
    """
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20).stdout


model = OpenAIServerModel(
    model_id=os.environ["OPENAI_MODEL"],
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
)
print(ToolCallingAgent(tools=[bash], model=model, max_steps=6, verbosity_level=0).run(sys.argv[1]))
