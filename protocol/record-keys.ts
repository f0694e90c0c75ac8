/** The keys of the records that activities write to the store. A key names the work, never its worker. */

import type { Info } from '@temporalio/activity';
import type { EnginePart } from './engine.ts';
import type { Attempt, ObjectRef } from './stages.ts';

/** Pads with zeros, so that numbers in keys sort in byte order. */
export function padded(n: number): string {
  return String(n).padStart(5, '0');
}

export function attemptKey({ rollout, attempt }: Pick<Attempt, 'rollout' | 'attempt'>): string {
  return `${rollout}#${attempt}`;
}

/** The id of an attempt's sandbox. `restore` counts its lost sandboxes: each replacement has its own id. */
export function sandboxKey(attempt: Pick<Attempt, 'rollout' | 'attempt'>, restore = 0): string {
  return restore === 0 ? attemptKey(attempt) : `${attemptKey(attempt)}~${restore}`;
}

/** The id of another sandbox of the attempt whose `main` sandbox has the id `main`. */
export function sandboxNamed(main: string, name: string): string {
  return name === 'main' ? main : `${main}+${name}`;
}

/** The id of the `main` sandbox that the sandbox belongs to: of an attempt, or of its grading. */
export function mainSandboxOf(id: string): string {
  return id.replace(/(#[^#+]*)\+[a-z][a-z0-9-]*$/, '$1');
}

type Scheduled = Pick<Info, 'activityType' | 'workflowExecution' | 'activityId'>;

export const keys = {
  generate: (attempt: Attempt, turn: number) => `generate:${attemptKey(attempt)}/${padded(turn)}`,
  act: (attempt: Attempt, turn: number) => `act:${attemptKey(attempt)}/${padded(turn)}`,
  answer: (attempt: Attempt, turn: number, index: number) => `answer:${attemptKey(attempt)}/${padded(turn)}/${index}`,
  /** Prefix of all answers of the attempt. */
  answers: (attempt: Attempt) => `answer:${attemptKey(attempt)}/`,
  start: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `start:${attemptKey(attempt)}`,
  program: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `program:${attemptKey(attempt)}`,
  /** A model call that a gateway received, by its name. */
  call: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, call: string) => `call:${attemptKey(attempt)}/${call}`,
  gatewayKey: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `gateway-key:${attemptKey(attempt)}`,
  /** Bytes that the attempt's tools put into the store. */
  object: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, sha256: string) => `object:${attemptKey(attempt)}/${sha256}`,
  mcp: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `mcp:${attemptKey(attempt)}`,
  /** The sessions of a server over HTTP, from 0: each begins when the server has forgotten the one before. */
  mcpSession: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, server: string, number: number) =>
    `${keys.mcpSessions(attempt, server)}${padded(number)}`,
  /** Prefix of the server's sessions. */
  mcpSessions: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, server: string) => `${keys.mcp(attempt)}/${server}/`,
  restored: (sandbox: string) => `restored:${sandbox}`,
  /** `place`: `start`, `step/TURN`, `tool/TURN/INDEX` or `grade`. `number` counts equal questions from 1. */
  ask: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, place: string, digest: string, number: number) =>
    `${keys.asks(attempt)}${place}/${digest}/${number}`,
  /** Prefix of all answers of judges in the attempt. */
  asks: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `ask:${attemptKey(attempt)}/`,
  snapshot: (attempt: Attempt, turn: number) => `${keys.snapshots(attempt)}${padded(turn)}`,
  /** Prefix of the attempt's snapshots. */
  snapshots: (attempt: Attempt) => `snapshot:${attemptKey(attempt)}/`,
  /** A piece of an archive. `taking`: names one try, so that no two tries are mixed. */
  snapshotPiece: (attempt: Attempt, taking: string, name: string, number: number) =>
    `snapshot-piece:${attemptKey(attempt)}/${taking}/${name}/${padded(number)}`,
  collect: (attempt: Attempt) => `collect:${attemptKey(attempt)}`,
  verdict: (attempt: Attempt) => `verdict:${attemptKey(attempt)}`,
  /** Round `round` of the grading failed. Rounds count from 1. */
  ungraded: (attempt: Attempt, round: number) => `${keys.ungradedRounds(attempt)}${padded(round)}`,
  /** Prefix of the failed rounds of the attempt's grading. */
  ungradedRounds: (attempt: Attempt) => `ungraded:${attemptKey(attempt)}/`,
  outcome: (rollout: string) => `outcome:${rollout}`,
  /** `batch`: the workflow id. `groups`: the number of groups in the manifest. */
  manifest: (batch: string, groups: number) => `manifest:${batch}#${padded(groups)}`,
  /** Prefix of all manifests of the batch. */
  manifests: (batch: string) => `manifest:${batch}#`,
  end: (rollout: string) => `end:${rollout}`,
  update: (run: string, step: number) => `update:${run}/${padded(step)}`,
  step: (run: string, step: number) => `step:${run}/${padded(step)}`,
  evaluation: (run: string, step: number) => `evaluation:${run}/${padded(step)}`,
  run: (run: string) => `run:${run}`,
  /** What a run, or `eval/ID`, has agreed on with the engine of these parts. */
  engine: (run: string, parts: readonly EnginePart[]) => `${keys.engines}${run}/${parts.join('+')}`,
  /** Prefix of all of them. */
  engines: 'engine:',
  changes: (run: string, key: string) => `changes:${run}/${key}`,
  /** `number` counts the run's ends: a run that was resumed after an end has several. */
  runEnd: (run: string, number = 1) => (number === 1 ? `run-end:${run}` : `run-end:${run}/${padded(number)}`),
  /** The run was resumed after its end `number`. */
  runAgain: (run: string, number: number) => `run-again:${run}/${padded(number)}`,
  /** The trajectory of a pruned rollout, kept instead of its turns. */
  trajectory: (rollout: string) => `trajectory:${rollout}`,
  /** The records of turns were deleted for this run, or eval (`eval/ID`). */
  pruned: (name: string) => `pruned:${name}`,
  /**
   * Prefix of the executions of one scheduled activity that recorded an end without a result. The workflow's id comes
   * first, so that all of a workflow's records are found by a prefix.
   */
  tries: ({ activityType, workflowExecution, activityId }: Scheduled) =>
    `tries:${workflowExecution?.workflowId ?? ''}#${activityType}/${workflowExecution?.runId ?? ''}/${activityId}/`,
  oneTry: (scheduled: Scheduled & Pick<Info, 'attempt'>) => `${keys.tries(scheduled)}${padded(scheduled.attempt)}`,
  /** A bundle of users' modules that may run, by its digest. */
  modules: (digest: ObjectRef) => `modules:${digest}`,
  /** `digest`: of the endpoint's settings that decide how requests are made. */
  offer: (run: string, digest: string) => `offer:${run}/${digest}`,
} as const;

/** Kinds of records whose keys have the run's name first. */
const RUN_KINDS: ReadonlySet<string> = new Set([
  'update',
  'step',
  'evaluation',
  'run',
  'changes',
  'run-end',
  'run-again',
  'offer',
]);

/** The run, or the eval (`eval/ID`), of the record with this key. `undefined` if it belongs to neither. */
export function runOfKey(key: string): string | undefined {
  // Keys of executions have their kind before the record's key.
  const [, kinds = '', rest = ''] = /^((?:[a-z-]+:)+)(.*)$/su.exec(key) ?? [];
  const kind = kinds.split(':').at(-2) ?? '';
  const [first, second] = rest.split(/[/#]/u);
  if (first === 'eval') return `eval/${second}`;
  if (kind.startsWith('eval-') || kind === 'eval') return `eval/${first}`;
  if (RUN_KINDS.has(kind)) return first;
  return first === 'train' ? second : undefined;
}

/**
 * The key of the result of an execution in the journal. `undefined` for the creation of a sandbox: its end is the event
 * `started`.
 */
export function resultKeyOf(execution: string): string | undefined {
  const [, kind, rest = ''] = /^([a-z]+):(.*)$/su.exec(execution) ?? [];
  if (kind === 'model' || kind === 'judge') return rest;
  if (kind === 'collect' || kind === 'update') return execution;
  if (kind === 'reward') return `verdict:${rest}`;
  if (kind === 'start' || kind === 'program') return execution;
  if (kind === 'step')
    return `act:${rest.slice(0, rest.lastIndexOf('/'))}/${padded(Number(rest.slice(rest.lastIndexOf('/') + 1)))}`;
  const [, attempt = '', turn, index] = /^(.*)\/(\d+)\/(\d+)$/su.exec(rest) ?? [];
  return kind === 'tool' ? `answer:${attempt}/${padded(Number(turn))}/${index}` : undefined;
}
