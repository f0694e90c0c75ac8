/**
 * The contexts of a rollout as chats: one for its own agent, for each sub-agent, and for each segment that a summary
 * opened. Each has the messages that the policy saw there, and ends with what it said last.
 */

import { sameAgent, sameContext } from '../../protocol/frames.ts';
import type { Message } from '../../protocol/message.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import type { Said } from '../../protocol/transcript.ts';
import type { Store } from '../../store/store.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import { openingMessages } from '../../tasks/opening-messages.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import { schemasOf } from '../../agents/tools/toolbox.ts';
import { type Trajectory, trajectoryOf } from '../trajectories.ts';
import type { ChatContext } from './formats/format.ts';

interface Deps {
  readonly store: Store;
  readonly tasks: TaskLoader;
}

/** The message without its place. */
function plain({ agentPath: _path, segment: _segment, ...message }: Said): Message {
  if (!('ephemeral' in message)) return message as Message;
  const { role, content } = message;
  return { role, content };
}

/** What the last turn of a context saw: of ephemeral messages, those after the turn before it. */
function seenAtLast(messages: readonly Said[]): readonly Said[] {
  const turn = messages.findLastIndex(({ role }, i) => role === 'assistant' && i < messages.length - 1);
  return messages.filter((message, i) => i > turn || !('ephemeral' in message));
}

/** What an agent reads before it speaks: of its first segment. */
function openingOf(messages: readonly Said[]): readonly Said[] {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  return first < 0 ? messages : messages.slice(0, first);
}

/** A segment begins with its agent's opening; the summary joins a last message of the user. */
function withOpening(opening: readonly Said[], own: readonly Said[]): readonly Said[] {
  const [summary, ...rest] = own;
  const last = opening.at(-1);
  if (summary?.role !== 'user' || last?.role !== 'user') return [...opening, ...own];
  return [...opening.slice(0, -1), { ...summary, content: `${last.content}\n\n${summary.content}` }, ...rest];
}

type Placed = Pick<ChatContext, 'agentPath' | 'segment'> & { readonly messages: readonly Said[] };

/** `said`: all messages, the task's own first. Contexts in which nothing was said are left out. */
export function contextsIn(said: readonly Said[]): Placed[] {
  const contexts: Array<{ readonly at: Said; readonly messages: Said[] }> = [];
  for (const message of said) {
    const known = contexts.find(({ at }) => sameContext(at, message));
    if (known) known.messages.push(message);
    else contexts.push({ at: message, messages: [message] });
  }
  return contexts.flatMap(({ at, messages }): Placed[] => {
    const { agentPath, segment = 1 } = at;
    const first = contexts.find((one) => sameAgent(one.at, at));
    const whole = segment === 1 || !first ? messages : withOpening(openingOf(first.messages), messages);
    const last = whole.findLastIndex(({ role }) => role === 'assistant');
    const place = { ...(agentPath && { agentPath }), ...(segment > 1 && { segment }) };
    return last < 0 ? [] : [{ ...place, messages: seenAtLast(whole.slice(0, last + 1)) }];
  });
}

/** The trajectory of an ended rollout with its contexts. Errors: those of loading the task; `StoreCorrupt`. */
export async function toldOf(
  outcome: OutcomeRecord,
  run: string,
  deps: Deps,
): Promise<{ readonly trajectory: Trajectory; readonly contexts: readonly ChatContext[] }> {
  const trajectory = await trajectoryOf(outcome.rollout, deps);
  if (trajectory === undefined) throw new Error(`${outcome.rollout} has not ended`);
  const attempt = { run, ...outcome };
  const opening = await openingMessages(outcome, deps);
  const contexts: ChatContext[] = [];
  for (const context of contextsIn([...opening, ...trajectory.messages.slice(opening.length)])) {
    // A pruned rollout keeps no record of what its servers and callers offered.
    const tools = await offeredTools(attempt, context, deps).catch((error: unknown) => {
      if (
        trajectory.messages.length > 0 &&
        error instanceof Error &&
        / is not recorded$| calls no agent/u.test(error.message)
      )
        return new Map();
      throw error;
    });
    contexts.push({ ...context, messages: context.messages.map(plain), tools: schemasOf(tools) });
  }
  return { trajectory, contexts };
}
