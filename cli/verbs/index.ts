/** Every verb with its line in the overview; a verb's own module is loaded only when it is called. */

import type { Verb } from '../verb.ts';

export interface VerbEntry {
  readonly summary: string;
  readonly load: () => Promise<Verb>;
  /** True if all of its work ends with its process. */
  readonly endsHere?: true;
}

export const VERBS: Readonly<Record<string, VerbEntry>> = {
  setup: {
    summary: 'set this machine up for Longhaul, once',
    load: async () => (await import('./stack/setup.ts')).setupVerb,
  },
  doctor: {
    summary: 'check this machine, with a remedy for each missing part',
    load: async () => (await import('./stack/doctor.ts')).doctor,
    endsHere: true,
  },
  up: { summary: 'start the stack: Temporal server and workers', load: async () => (await import('./stack/up.ts')).up },
  down: { summary: 'drain and stop the stack', load: async () => (await import('./stack/down.ts')).down },
  ps: { summary: 'the processes of the stack', load: async () => (await import('./stack/ps.ts')).ps },
  logs: { summary: 'the logs of the stack', load: async () => (await import('./stack/logs.ts')).logs },
  worker: { summary: 'one worker process', load: async () => (await import('./stack/worker.ts')).worker },
  train: {
    summary: 'start a training run, or attach to it',
    load: async () => (await import('./jobs/train.ts')).trainVerb,
  },
  check: {
    summary: 'check the modules, tasks, data and graders of a run or an eval',
    load: async () => (await import('./jobs/check.ts')).checkVerb,
    endsHere: true,
  },
  model: {
    summary: 'a policy: its size, its context here, and the memory for it',
    load: async () => (await import('./model.ts')).modelVerb,
    endsHere: true,
  },
  rollout: {
    summary: 'one rollout, its turns shown as they happen',
    load: async () => (await import('./jobs/rollout.ts')).rolloutVerb,
  },
  eval: {
    summary: 'pass@k and mean reward of policies on tasks',
    load: async () => (await import('./jobs/eval.ts')).evalVerb,
  },
  schedule: {
    summary: 'evals at set times, as Temporal schedules',
    load: async () => (await import('./jobs/schedule.ts')).scheduleVerb,
  },
  runs: { summary: 'the runs of this folder', load: async () => (await import('./runs/runs.ts')).runsVerb },
  show: { summary: 'the state of a run', load: async () => (await import('./runs/runs.ts')).showVerb },
  watch: { summary: 'follow a run', load: async () => (await import('./runs/runs.ts')).watchVerb },
  rollouts: {
    summary: 'the rollouts of a run, and how each ended',
    load: async () => (await import('./runs/rollouts.ts')).rolloutsVerb,
  },
  trajectory: {
    summary: 'one rollout, turn by turn',
    load: async () => (await import('./runs/rollouts.ts')).trajectoryVerb,
  },
  times: {
    summary: "where the time of a run's rollouts went",
    load: async () => (await import('./runs/times.ts')).timesVerb,
  },
  pause: {
    summary: 'pause a run at a turn, or at a step',
    load: async () => (await import('./runs/steer.ts')).pauseVerb,
  },
  resume: { summary: 'resume a paused run', load: async () => (await import('./runs/steer.ts')).resumeVerb },
  cancel: {
    summary: 'end a run and release its sandboxes',
    load: async () => (await import('./runs/steer.ts')).cancelVerb,
  },
  set: { summary: 'change settings of a live run', load: async () => (await import('./runs/steer.ts')).setVerb },
  rescore: {
    summary: "grade a run's recorded rollouts again, without inference",
    load: async () => (await import('./runs/rescore.ts')).rescoreVerb,
  },
  export: {
    summary: "a run's rollouts as training data in others' formats",
    load: async () => (await import('./runs/export.ts')).exportVerb,
  },
  prune: {
    summary: 'remove what ended runs no longer need from the store',
    load: async () => (await import('./runs/prune.ts')).pruneVerb,
  },
  sft: {
    summary: 'supervised warm start from demonstrations',
    load: async () => (await import('./jobs/sft.ts')).sftVerb,
  },
  serve: { summary: "a policy behind OpenAI's API", load: async () => (await import('./serve.ts')).serveVerb },
  bench: {
    summary: 'measure one part against a peer in the same run',
    load: async () => (await import('./bench.ts')).benchVerb,
  },
  chaos: {
    summary: 'kill processes of a running job at random, and check that nothing is lost',
    load: async () => (await import('./chaos.ts')).chaosVerb,
  },
};
