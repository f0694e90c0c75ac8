"""mini-swe-agent as its package has it: its agent, its environment, its model by LiteLLM. `python3 mini_swe_agent.py TASK`."""

import os
import sys

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

model = LitellmModel(
    model_name="openai/" + os.environ["OPENAI_MODEL"],
    model_kwargs={"api_base": os.environ["OPENAI_BASE_URL"]},
    cost_tracking="ignore_errors",
)
agent = DefaultAgent(
    model,
    LocalEnvironment(timeout=20),
    system_template="You use bash. Echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT, then the answer.",
    instance_template="{{ task }}",
    step_limit=6,
)
print(agent.run(sys.argv[1]).get("submission", "").strip())
