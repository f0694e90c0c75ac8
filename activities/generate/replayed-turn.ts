/**
 * A turn of an earlier rollout, played again by today's agent and tools. A turn that no longer fits is an error that
 * names it: graded all the same, it would say something of another transcript.
 */

import type { ReplayPolicy, ReplayScripts } from '../../protocol/policy.ts';
import type { AnswerRecord, GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { sameContext } from '../../protocol/frames.ts';
import { contextTokensAfter } from '../../protocol/transcript.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { turnsOf } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { type AgentAtWork, type Decided, decided, tokensAbout } from './agent-at-work.ts';

type Source = NonNullable<GenerateRecord['replayed']>;

export type ReplayedTurn = Decided & Pick<GenerateRecord, 'replayed'>;

/** The rollout that was chosen for the first turn. */
async function sourceOf(policy: ReplayPolicy, input: GenerateInput, store: Store): Promise<Source> {
  const first = input.turn === 1 ? undefined : await store.get<GenerateRecord>(keys.generate(input, 1));
  if (first?.replayed !== undefined) return first.replayed;
  const scripts = JSON.parse(Buffer.from(await store.getObject(policy.rollouts)).toString()) as ReplayScripts;
  const rollouts = scripts[input.task] ?? [];
  const source = rollouts[(input.sample ?? 0) % Math.max(1, rollouts.length)];
  if (source !== undefined) return source;
  throw new UserInputError('policy', `replay:${policy.of}`, `it has no rollout of ${input.task}`);
}

/** The name of a call whose tool is not offered any more. One that was refused then may be refused again. */
async function lostTool(
  { parsed, command }: GenerateRecord,
  source: Source,
  { turn, run, task }: GenerateInput,
  { tools }: AgentAtWork,
  store: Store,
): Promise<string | undefined> {
  if (parsed.kind !== 'calls' || command === undefined || command.do === 'reply') return undefined;
  for (const [index, { name }] of parsed.calls.entries()) {
    const isOffered = tools.has(name);
    // Calls after the one that ended the agent's part did not run.
    if (isOffered && (name === 'finish' || (command.do === 'delegate' && command.call === index))) return undefined;
    if (isOffered) continue;
    const then = { run, task, rollout: source.rollout, attempt: source.attempt };
    const answer = await store.get<AnswerRecord>(keys.answer(then, turn, index));
    const isNotRun = answer === undefined && command.do === 'act';
    if (answer?.refused !== true && !isNotRun) return name;
  }
  return undefined;
}

/** Why the turn cannot be played; `undefined` if it can. */
async function misfitOf(
  record: GenerateRecord,
  today: Decided,
  source: Source,
  input: GenerateInput,
  agent: AgentAtWork,
  store: Store,
): Promise<string | undefined> {
  if (!sameContext(record, agent.place)) return 'another agent, or another segment, speaks in it';
  const lost = await lostTool(record, source, input, agent, store);
  if (lost !== undefined)
    return `it calls the tool ${lost}, which the task no longer offers (${[...agent.tools.keys()].join(', ')})`;
  const [then, now] = [record.command?.do, today.command?.do];
  const isLast = input.turn >= source.turns;
  if (isLast || then === now || now === undefined || now === 'answer' || now === 'finish') return undefined;
  return `the agent decided ${then ?? 'nothing'} then, and decides ${now} today`;
}

/**
 * `undefined` after the source's last turn. Errors: `UserInputError` for a turn that no longer fits;
 * `StoreCorrupt` if a turn of the source is missing.
 */
export async function replayedTurn(
  policy: ReplayPolicy,
  input: GenerateInput,
  agent: AgentAtWork,
  store: Store,
): Promise<ReplayedTurn | undefined> {
  const source = await sourceOf(policy, input, store);
  const turns = await turnsOf(store, source, source.turns);
  const record = input.turn > source.turns ? undefined : turns[input.turn - 1];
  if (record === undefined) return undefined;
  const { parsed, end } = record;
  const inContext = turns.slice(0, input.turn).filter((one) => sameContext(one, record));
  // A script and some servers count no tokens.
  const contextTokens = contextTokensAfter(inContext) || tokensAbout(agent, parsed.content);
  const today: Decided = end === 'stop' ? decided(agent, { parsed, form: 'server', contextTokens }) : { parsed, end };
  const misfit = await misfitOf(record, today, source, input, agent, store);
  if (misfit === undefined) return { ...today, replayed: source };
  throw new UserInputError(
    'policy',
    `replay:${policy.of}`,
    `turn ${input.turn} of ${source.rollout} does not fit ${input.task} any more: ${misfit}`,
  );
}
