/** Activities that do nothing but answer by a script: for what the workflows themselves decide. */

import { openedConfig } from './some-tasks.ts';
import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  AgentRunActivities,
  GpuActivities,
  InitActivities,
  OrchestratorActivities,
  RewardActivities,
  ShardActivities,
  SweepActivities,
} from '../../protocol/activities.ts';
import { retryWhileDiskUnavailable } from '../../store/disk-patience.ts';
import type { CellHeadline, SweepConfig } from '../../protocol/eval.ts';
import type { ConfigChange } from '../../protocol/run-config.ts';
import type { AgentRunInput, Card, GenerateInput, GenerateOutcome } from '../../protocol/stages.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { UpdateInput } from '../../protocol/update.ts';

export interface Script {
  /** What the policy does in a turn. */
  readonly turn?: (input: GenerateInput) => GenerateOutcome['kind'];
  /** The sub-agent that a turn of the kind `delegate` calls. Default: `helper`. */
  readonly agent?: (input: GenerateInput) => string;
  /** Whether a call before `finish` is refused in a turn. */
  readonly unfinished?: (input: AgentRunInput) => boolean;
  /** Milliseconds that a turn took the policy itself, as the engine and the sandbox are to say. */
  readonly ran?: (activity: 'generate' | 'agentRun', turn: number) => number | undefined;
  /** Throws to make an activity fail. */
  readonly before?: (
    activity: string,
    input: { rollout?: string; attempt?: number; turn?: number },
  ) => void | Promise<void>;
  readonly reward?: (rollout: string) => number;
  /** Sees what an update is to do; what it returns is in the step's record. */
  readonly update?: (input: UpdateInput) => Partial<StepRecord> | void;
  /** Sees the manifest of a batch that has ended. */
  readonly batch?: (input: { readonly batch: string; readonly tasks: readonly string[] }) => void;
  /** Who says that it has the context in its cache. */
  readonly worker?: (input: GenerateInput) => string | undefined;
  /** Shards of each optimizer step of an update that is made in shards. */
  readonly rounds?: () => readonly number[];
  /** Changes on record from before a restart. */
  readonly changes?: () => readonly ConfigChange[];
  /** The last step that `openRun` finds on record. */
  readonly recorded?: () => number | undefined;
  /** Where new sandboxes are; absent: where a worker is. */
  readonly host?: () => string;
  /** What a card says beside its sandbox. */
  readonly card?: () => Partial<Omit<Card, 'sandbox'>>;
  /** What a new sandbox says of its time to live. */
  readonly ttlSeconds?: () => number;
}

export interface Log {
  readonly calls: Array<{ activity: string; rollout: string; attempt: number }>;
  /** Sandboxes: the ids of rollouts, with an attempt. */
  readonly held: Set<string>;
  live: number;
  peakLive: number;
}

export const restoreFailed = () =>
  ApplicationFailure.create({ message: 'another digest', type: 'RestoreFailed', nonRetryable: true });
export const sandboxLost = () =>
  ApplicationFailure.create({ message: 'gone', type: 'SandboxLost', nonRetryable: true });

/** For `before`: the disk is full for so long, and the store waits for it. */
export function waitsForDisk(seconds: number): Promise<void> {
  const until = performance.now() + seconds * 1000;
  return retryWhileDiskUnavailable('the store', { firstMs: 50, longestMs: 50, totalMs: 60_000 }, async () => {
    if (performance.now() < until) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  });
}

/** For `before`: an activity that takes until `end`, and lives meanwhile. */
export async function lasting(end: Promise<unknown>): Promise<void> {
  const context = Context.current();
  let over = false;
  void end.then(() => void (over = true));
  while (!over) {
    context.heartbeat();
    await Promise.race([end, sleep(1000)]);
  }
}

export function scriptedActivities(script: Script, log: Log) {
  const note = async (activity: string, input: { rollout?: string; attempt?: number; turn?: number }) => {
    log.calls.push({ activity, rollout: input.rollout ?? '', attempt: input.attempt ?? 0 });
    await script.before?.(activity, input);
  };
  // To end one twice is to end it once: a cancelled rollout may release what it has just collected from.
  const { held } = log;
  const end = (sandbox: string) => {
    held.delete(sandbox);
    log.live = held.size;
  };
  const init: InitActivities = {
    async prepare(input) {
      await note('prepare', input);
      const sandbox = `${input.rollout}#${input.attempt}`;
      held.add(sandbox);
      log.live = held.size;
      log.peakLive = Math.max(log.peakLive, log.live);
      const ref = { sandbox, host: script.host?.() ?? 'test-host', ttlSeconds: script.ttlSeconds?.() ?? 1800 };
      return { sandbox: ref, gradedIn: 'fresh', ...script.card?.() };
    },
    async restoreSandbox(input) {
      await note('restoreSandbox', input);
      const sandbox = `${input.rollout}#${input.attempt}~${input.restore}`;
      held.add(sandbox);
      log.live = held.size;
      const ref = { sandbox, host: script.host?.() ?? 'test-host', ttlSeconds: script.ttlSeconds?.() ?? 1800 };
      return { sandbox: ref, gradedIn: 'fresh', ...script.card?.() };
    },
  };
  const agentRun: AgentRunActivities = {
    async agentRun(input) {
      await note('agentRun', input);
      const unfinished = script.unfinished?.(input) ?? false;
      const ms = script.ran?.('agentRun', input.turn);
      const told = { line: 'ok', ...(ms === undefined ? {} : { ms }), ...(unfinished ? { unfinished } : {}) };
      if (input.collect === undefined || (input.collect === 'if-finished' && unfinished)) return told;
      if (input.sandbox !== undefined) end(input.sandbox);
      return { ...told, collected: { artifact: 'sha256:00', bytes: 0 } };
    },
    async gradeInPlace(input) {
      await note('gradeInPlace', input);
      const value = script.reward?.(input.rollout) ?? 1;
      return { code: 'graded', reward: value, passed: value > 0, reason: '' };
    },
    async collect(input) {
      await note('collect', input);
      end(input.sandbox);
      return { artifact: 'sha256:00', bytes: 0 };
    },
    async releaseSandbox(input) {
      await note('releaseSandbox', input);
      end(input.sandbox);
    },
    holdSandbox: (input) => note('holdSandbox', input),
    async runProgram(input) {
      await note('runProgram', input);
      return { finish: 'answer', ms: 1000, line: 'exit code 0' };
    },
    recordReports: (input) => note('recordReports', input),
  };
  const gpu: GpuActivities & ShardActivities = {
    openEngine: async () => ({ kinds: {} }),
    checkEndpoint: () => note('checkEndpoint', {}),
    async generate(input) {
      await note('generate', input);
      const kind = script.turn?.(input) ?? (input.turn < 2 ? 'act' : 'finish');
      const worker = script.worker?.(input);
      const ms = script.ran?.('generate', input.turn);
      return {
        kind,
        calls: kind === 'act' ? 1 : 0,
        ...(kind === 'delegate' && { agent: script.agent?.(input) ?? 'helper' }),
        contextTokens: 10 * input.turn,
        sampledTokens: 5,
        line: kind,
        ...(ms === undefined ? {} : { ms }),
        ...(worker === undefined ? {} : { worker }),
      };
    },
    async planUpdate({ step }) {
      await note('planUpdate', {});
      return { dir: `/run/updates/step-${step}`, plan: 'p', rounds: script.rounds?.() ?? [2, 2] };
    },
    forwardBackward: ({ round, shard }) => note('forwardBackward', { rollout: `${round}/${shard}` }),
    optimStep: ({ round }) => note('optimStep', { rollout: String(round) }),
    async update(input) {
      await note('update', {});
      const told = script.update?.(input) ?? {};
      const { step } = input;
      const drift = { meanAbs: 0, maxAbs: 0 };
      const common = {
        rewardMean: 0.5,
        passRate: 0.5,
        groups: 1,
        valid: 2,
        masked: {},
        dropped: {},
        sampledTokens: 1,
        trainedTokens: 1,
        prefixBreaks: 0,
      };
      const record = {
        step,
        policyVersion: step,
        ...common,
        learningRate: 0.001,
        loss: 0,
        kl: 0,
        entropy: 0,
        gradNorm: 0,
        logprobDrift: drift,
        ...told,
      };
      return { policy: { uri: `file:///v${step}`, version: step }, sha256: 'x', record };
    },
  };
  const reward: RewardActivities = {
    async computeReward(input) {
      await note('computeReward', input);
      const value = script.reward?.(input.rollout) ?? 1;
      return { code: 'graded', reward: value, passed: value > 0, reason: '' };
    },
  };
  const orchestrator: OrchestratorActivities = {
    async openRun(given) {
      const config = openedConfig(given);
      const last = script.recorded?.();
      const recorded = last === undefined ? {} : { recorded: last };
      return {
        config,
        runDir: '/run',
        policy: { uri: 'file:///v0', version: 0 },
        changes: script.changes?.() ?? [],
        ...recorded,
      };
    },
    recordChanges: () => note('recordChanges', {}),
    recordDispatched: (input) => note('recordDispatched', { rollout: input.name }),
    async recordBatch(input) {
      await note('recordBatch', { rollout: input.batch });
      script.batch?.(input);
    },
    recordFailures: ({ failures }) =>
      note('recordFailures', { rollout: failures.map(({ rollout }) => rollout).join(' ') }),
    async summariseEvaluation() {
      await note('summariseEvaluation', {});
      return { passRate: 0.5, greedyPassRate: null, rollouts: 1, byFamily: {} };
    },
    recordStep: () => note('recordStep', {}),
    recordEvaluation: () => note('recordEvaluation', {}),
    closeRun: ({ status }) => note('closeRun', { rollout: status }),
  };
  return { init, agentRun, gpu, reward, orchestrator, sweeps: scriptedSweeps(note) };
}

type Scripted = ReturnType<typeof scriptedActivities>;
export type ScriptedActivities = Omit<Scripted, 'gpu'> & { readonly gpu: GpuActivities & Partial<ShardActivities> };

/** Bookkeeping of sweeps that remembers nothing: two policies of two chunks each, all of them graded. */
function scriptedSweeps(note: (activity: string, input: { rollout?: string }) => Promise<void>): SweepActivities {
  const estimate = { mean: 0.5, low: 0.25, high: 0.75 };
  const scores = { tasks: 4, rollouts: 8, meanReward: estimate, passAt: { '1': estimate } };
  const sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 10 };
  return {
    async openSweep({ given, eval: id }) {
      await note('openSweep', {});
      const { agent, dispatcher } = given as SweepConfig;
      const cells = ['a', 'b'].map((name, i) => ({
        name: `${name}/t1`,
        policyName: name,
        samplingName: 't1',
        policy: { uri: `file:///${name}`, version: i },
        sampling,
        samples: 2,
      }));
      return { eval: id, evalDir: '/evals', round: 1, seed: 1, agent, dispatcher, maxFailed: 0, cells };
    },
    recordBudgets: () => note('recordBudgets', {}),
    async nextChunk({ index, cell }) {
      await note('nextChunk', { rollout: cell.name });
      const chunk = { tasks: [`t-held-out-${2 * index}`, `t-held-out-${2 * index + 1}`], firstSample: 0, samples: 2 };
      return { ...(index < 2 ? { chunk } : {}), total: 8, known: 0 };
    },
    async summariseCell({ cell: { name, policyName, samplingName } }): Promise<CellHeadline> {
      await note('summariseCell', { rollout: name });
      return {
        cell: name,
        policy: policyName,
        sampling: samplingName,
        ...scores,
        graded: 8,
        failed: {},
        ofGraded: scores,
      };
    },
    closeSweep: ({ status }) => note('closeSweep', { rollout: status }),
  };
}
