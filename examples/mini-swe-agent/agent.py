"""mini-swe-agent's own agent and environment, with short templates and a model that asks the gateway. `python3 agent.py TASK`.

It prints what was submitted. The library's own models import LiteLLM, which takes longer than a rollout of this size.
"""

import json
import os
import sys
import urllib.request

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.utils.actions_text import format_observation_messages, parse_regex_actions


class GatewayModel:
    """A model as mini-swe-agent asks for one: commands are in fenced blocks, as in its text-based models."""

    config = None

    def query(self, messages, **_):
        sent = [{"role": one["role"], "content": one["content"]} for one in messages if one["role"] != "exit"]
        body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": sent}).encode()
        headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            message = json.load(answer)["choices"][0]["message"]
        text = message["content"] or ""
        actions = parse_regex_actions(
            text, action_regex=r"```bash\n(.*?)\n```", format_error_template="Give one command in a ```bash block."
        )
        return {"role": "assistant", "content": text, "extra": {"actions": actions, "cost": 0.0}}

    def format_message(self, **message):
        return message

    def format_observation_messages(self, message, outputs, template_vars=None):
        return format_observation_messages(
            outputs, observation_template="{{ output.output[:200] | trim }}", template_vars=template_vars
        )

    def get_template_vars(self, **given):
        return given

    def serialize(self):
        return {}


agent = DefaultAgent(
    GatewayModel(),
    LocalEnvironment(timeout=20),
    system_template="You use bash.",
    instance_template="{{ task }}",
    step_limit=4,
    max_consecutive_format_errors=2,
)
print(agent.run(sys.argv[1]).get("submission", "").strip())
