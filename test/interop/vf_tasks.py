"""A taskset of the real `verifiers` 0.4, played in text."""

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: str


class SumsConfig(vf.TasksetConfig):
    longest: int = 10


class Sum(vf.Task[SumData]):
    @vf.reward(weight=2.0)
    async def right(self, trace) -> float:
        return 1.0 if trace.last_reply == self.data.answer else 0.0

    @vf.reward(weight=0.5)
    async def short(self, trace) -> float:
        return 1.0 if len(trace.last_reply) <= 4 else 0.0

    @vf.metric
    async def characters(self, trace) -> float:
        return float(len(trace.last_reply))


class Sums(vf.Taskset[Sum, SumsConfig]):
    def load(self):
        yield Sum(SumData(prompt="3 + 4?", answer="7"), self.config.task)


__all__ = ["Sums"]
