/**
 * The agent whose turn it is: the rollout's own, or a sub-agent. From the records: what it read first, what it may
 * call, its turns so far, and its decision after this one.
 */

import { type AgentType, agentNamed, defaultAgent, type TurnView } from '../../agents/agent.ts';
import { AgentFailed, checkedCommand } from '../../agents/check-command.ts';
import { withHints } from '../../agents/hints.ts';
import type { Toolbox } from '../../agents/tools/toolbox.ts';
import { resolveOptions } from '../../modules/options.ts';
import type { Command, Delegate } from '../../protocol/command.ts';
import type { CodecName } from '../../protocol/conversation.ts';
import { callingTurn, MOST_SUMMARY_CHARACTERS, type Place, sameContext } from '../../protocol/frames.ts';
import { lasting, type Message, type ParsedTurn } from '../../protocol/message.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import type { AgentChoice, GenerateInput } from '../../protocol/stages.ts';
import { answerTo, type Recorded, spoken, summaryIn, withSummary } from '../../protocol/transcript.ts';
import type { Store } from '../../store/store.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';
import { allTools, offeredTools } from '../../tasks/offered-tools.ts';
import { openingMessages } from '../../tasks/opening-messages.ts';
import type { Task } from '../../tasks/environment.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import { EnvironmentFailed } from '../failures.ts';
import { blameOwnCode } from '../own-code.ts';

/** Where a turn's messages come from. */
export interface TurnDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
}

/** A turn of an agent before this one, in the same context, and the messages that the agent received after it. */
export interface Earlier {
  readonly record: GenerateRecord;
  readonly received: readonly Message[];
}

export interface AgentAtWork {
  readonly place: Place;
  readonly type: AgentType;
  readonly options: unknown;
  readonly tools: Toolbox;
  /** The messages before the first turn of its segment. */
  readonly opening: readonly Message[];
  /** The same without a summary. */
  readonly firstOpening: readonly Message[];
  /** The task's own messages for a segment. Absent: it has none, or the agent is a sub-agent. */
  readonly openSegment?: NonNullable<Task['openSegment']>;
  /** Oldest first. */
  readonly earlier: readonly Earlier[];
  /** True: the last turn read ephemeral messages, which are in `opening` and `earlier` no more. */
  readonly isShortened: boolean;
  /** What its decision sees beside the turn itself. */
  readonly view: Omit<TurnView, 'parsed' | 'form' | 'contextTokens' | 'contextTokensLeft'>;
  readonly maxContextTokens: number;
  readonly hints: GenerateInput['hints'];
  /** Names of all tools of the task and its agents. */
  readonly allTools: readonly string[];
  readonly modules: string | undefined;
}

/** The call of the sub-agent whose turn it is. `undefined` for the rollout's own agent. */
function callOf({ agentPath = [] }: Place, { turns }: Recorded): Delegate | undefined {
  const name = agentPath.at(-1);
  if (name === undefined) return undefined;
  const command = turns[callingTurn(name) - 1]?.command;
  if (command?.do !== 'delegate') throw new Error(`turn ${callingTurn(name)} calls no agent, and ${name} works`);
  return command;
}

/** The agent that the rollout was started with; without one, the task's. */
async function choiceOf(input: GenerateInput, tools: Toolbox, { tasks }: TurnDeps): Promise<AgentChoice> {
  const { task } = await tasks.load(input);
  return input.agent ?? task.agent ?? { type: defaultAgent([...tools]) };
}

/** True for a sub-agent whose messages go to the environment's `step`. */
const asksForStep = (options: unknown): boolean =>
  (options as { readonly message?: unknown } | undefined)?.message === 'step';

/** Errors: `UnknownName`; `UserInputError` for invalid options; `StoreCorrupt` if a turn before this one is missing. */
export async function agentAtWork(input: GenerateInput, deps: TurnDeps): Promise<AgentAtWork> {
  const { turn, agentPath = [], segment = 1, limits, maxContextTokens = Number.POSITIVE_INFINITY } = input;
  const { task, modules } = await deps.tasks.load(input);
  const all = (await turnsOf(deps.store, input, turn - 1)).slice(0, turn - 1);
  const recorded = { turns: all, acts: await actsOf(deps.store, input) };
  const call = callOf(input, recorded);
  const tools = await offeredTools(input, input, deps);
  const { type: name, options } = call?.agent ?? (await choiceOf(input, tools, deps));
  const type = agentNamed(name, modules);
  const resolved = resolveOptions(type, options, 'agent.options');
  const firstOpening = call?.messages ?? (await openingMessages(input, deps));
  const opened = segment === 1 ? undefined : openingSummary(all, input);
  const isOwn = agentPath.length === 0;
  const whole = all.flatMap((record, i) =>
    sameContext(record, input) ? [{ record, received: answerTo(i + 1, recorded) }] : [],
  );
  const earlier = whole.map((one, i) => (i < whole.length - 1 ? { ...one, received: lasting(one.received) } : one));
  const read = opened === undefined ? firstOpening : (opened.opening ?? withSummary(firstOpening, opened.summary));
  const readLast = whole.at(-2)?.received ?? read;
  return {
    place: { ...(agentPath.length > 0 && { agentPath }), ...(segment > 1 && { segment }) },
    type,
    options: resolved,
    tools,
    opening: whole.length > 0 ? lasting(read) : read,
    firstOpening,
    ...(isOwn && task.openSegment && { openSegment: task.openSegment.bind(task) }),
    earlier,
    isShortened: whole.length > 0 && lasting(readLast).length < readLast.length,
    view: {
      turn,
      turnsLeft: limits.maxTurns - turn,
      agentPath,
      depthLeft: limits.maxDepth - agentPath.length,
      segment,
      segmentsLeft: limits.maxSegments - segment,
      earlier: earlier.flatMap(({ record }) => record.command ?? []),
      tools: [...tools.keys()],
      agents: task.agents ?? {},
      hasStep: task.step !== undefined && (isOwn || asksForStep(resolved)),
    },
    maxContextTokens,
    hints: input.hints,
    allTools: [...(await allTools(input, deps)).keys()],
    modules,
  };
}

/** The summary that opened the segment at `place`. */
function openingSummary(turns: readonly GenerateRecord[], { agentPath, segment = 1 }: Place) {
  const past = { ...(agentPath && { agentPath }), segment: segment - 1 };
  const last = turns.findLast((record) => sameContext(record, past));
  return last && summaryIn(last);
}

/** All messages of the agent's context so far. */
function messagesOf({ opening, earlier }: AgentAtWork): readonly Message[] {
  return [...opening, ...earlier.flatMap(({ record, received }) => [spoken(record), ...received])];
}

/** Characters of messages, where tokens cannot be counted. */
const charactersOf = (messages: readonly Message[]): number => JSON.stringify(messages).length;

/** About the tokens of the context after a turn that says `content`: four characters are one. */
export function tokensAbout(agent: AgentAtWork, content: string): number {
  return Math.ceil((charactersOf(messagesOf(agent)) + content.length) / 4);
}

/** A finished turn, and how large contexts are in the policy's own tokens. */
export interface FinishedTurn {
  readonly parsed: ParsedTurn;
  readonly form: CodecName;
  /** Tokens of the context after the turn. */
  readonly contextTokens: number;
  /** Tokens of a context of these messages. Absent: they cannot be counted, and characters are compared. */
  readonly sizeOf?: (messages: readonly Message[]) => number;
}

/** True if the summary may open a segment: it is none that could repeat forever. */
function mayOpen(summary: string, { parsed, contextTokens, sizeOf }: FinishedTurn, agent: AgentAtWork): boolean {
  if (summary.trim() === '' || summary.length > MOST_SUMMARY_CHARACTERS || agent.view.segmentsLeft < 1) return false;
  // What the task shows then is new to the policy: it need not be shorter. The number of segments is limited.
  if (agent.openSegment !== undefined) return true;
  const next = withSummary(agent.firstOpening, summary);
  if (sizeOf !== undefined) return sizeOf(next) < contextTokens;
  return charactersOf(next) < charactersOf([...messagesOf(agent), spoken({ parsed } as GenerateRecord)]);
}

/** Without the hint for it, a call that cannot be read is text. */
function asRead(parsed: ParsedTurn, { hints }: AgentAtWork): ParsedTurn {
  if (parsed.kind !== 'malformed' || hints?.parseError !== false) return parsed;
  return { kind: 'no-call', content: parsed.content };
}

export type Decided = Pick<GenerateRecord, 'parsed' | 'command' | 'hints' | 'end'>;

/** The command with what the task shows in the segment that it opens. Errors: `EnvironmentFailed`. */
function withOpening(command: Command, { openSegment, view }: AgentAtWork): Command {
  if (command.do !== 'summarise' || openSegment === undefined) return command;
  try {
    return { ...command, opening: openSegment(command.summary, view.segment + 1) };
  } catch (error) {
    return blameOwnCode(error, 'openSegment', (message) => new EnvironmentFailed(message));
  }
}

/**
 * The agent's decision. A summary that cannot open a segment ends the context instead: it would be full again at once.
 * Errors: `AgentFailed`.
 */
export function decided(agent: AgentAtWork, turn: FinishedTurn): Decided {
  const { type, options, maxContextTokens, modules } = agent;
  const { parsed, form, contextTokens } = turn;
  const contextTokensLeft = maxContextTokens - contextTokens;
  const view = { ...agent.view, parsed: asRead(parsed, agent), form, contextTokens, contextTokensLeft };
  let given: Command;
  try {
    given = type.decide(view, options);
  } catch (error) {
    return blameOwnCode(error, `the agent ${type.name}`, (message) => new AgentFailed(message));
  }
  const checked = checkedCommand(given, { type, view, allTools: agent.allTools, modules });
  if (checked.do === 'summarise' && !mayOpen(checked.summary, turn, agent)) return { parsed, end: 'context' };
  const command = withOpening(checked, agent);
  const earlier = agent.earlier.map(({ record }) => record.parsed);
  const hinted = withHints(command, { ...view, earlier, reads: type.reads }, agent.hints);
  return { parsed, end: 'stop', command: hinted.command, ...(hinted.hints.length > 0 && { hints: hinted.hints }) };
}
