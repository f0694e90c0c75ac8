/** Merges steps of trajectories: a step joins the one before if its prompt begins with all of that one's tokens. */

export interface Step {
  /** Names the trajectory; its steps are consecutive. */
  readonly trajectory: string;
  readonly prompt: readonly number[];
  readonly response: readonly number[];
  /** For each token of the response: 1 if the policy sampled it. */
  readonly mask: readonly number[];
  /** For each token, or for the whole step. */
  readonly reward: number | readonly number[];
  /** Left out if none were recorded. */
  readonly logprobs?: readonly number[];
  readonly stopReason: string;
  readonly isLast: boolean;
}

function continues(before: Step, next: Step): boolean {
  const past = [...before.prompt, ...before.response];
  return (
    next.trajectory === before.trajectory &&
    past.length <= next.prompt.length &&
    past.every((token, i) => token === next.prompt[i])
  );
}

/** The tokens in between are observations: mask 0, log-probability 0, reward 0. A single reward is the last step's. */
function join(before: Step, next: Step): Step {
  const observed = next.prompt.slice(before.prompt.length + before.response.length);
  const zeros = observed.map(() => 0);
  const reward =
    typeof before.reward === 'number' || typeof next.reward === 'number'
      ? next.reward
      : [...before.reward, ...zeros, ...next.reward];
  return {
    ...next,
    prompt: before.prompt,
    response: [...before.response, ...observed, ...next.response],
    mask: [...before.mask, ...zeros, ...next.mask],
    reward,
    ...(before.logprobs && next.logprobs && { logprobs: [...before.logprobs, ...zeros, ...next.logprobs] }),
  };
}

/** Merges steps in order. `isLast` and the stop reason are those of the last step that joined. */
export function mergeSteps(steps: readonly Step[]): Step[] {
  const merged: Step[] = [];
  for (const step of steps) {
    const before = merged.at(-1);
    if (before !== undefined && continues(before, step)) merged[merged.length - 1] = join(before, step);
    else merged.push(step);
  }
  return merged;
}
