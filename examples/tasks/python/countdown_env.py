"""An environment of SkyRL-Gym's kind: the policy subtracts 1, 2 or 3 from a number, and must reach 0 exactly."""

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput


class Countdown(BaseTextEnv):
    def __init__(self, env_config, extras={}):
        super().__init__()
        self.left = extras["reward_spec"]["ground_truth"]
        self.max_turns = extras.get("max_turns", 10)

    def init(self, prompt):
        return prompt + [{"role": "user", "content": "There are %d left." % self.left}], {}

    def step(self, action):
        self.turns += 1
        taken = int(action) if action.strip() in ("1", "2", "3") else 0
        self.left -= taken
        done = self.left <= 0 or self.turns >= self.max_turns
        reward = 1.0 if self.left == 0 else 0.0
        said = "There are %d left." % self.left if taken else "Answer with 1, 2 or 3."
        observations = [] if done else [{"role": "user", "content": said}]
        return BaseTextEnvStepOutput(observations=observations, reward=reward, done=done, metadata={})

    def get_metrics(self):
        return {"turns": self.turns}
