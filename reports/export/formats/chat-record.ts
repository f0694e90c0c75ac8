/** A chat record in OpenAI's form: what `longhaul sft` reads, and what becomes of it in `jsonl` and `parquet`. */

import { argumentsText, type Message } from '../../../protocol/message.ts';
import type { ChatContext, ExportedGroup, ToldRollout } from './format.ts';

export interface ChatCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly ChatCall[];
  /** 0: an empty turn, which nothing can be learned from. */
  readonly weight?: 0;
}

/** What a record says besides its chat. */
export interface ChatMetadata {
  readonly rollout: string;
  readonly task: string;
  readonly finish: string | null;
  readonly failure: string | null;
  readonly sampled_tokens: number;
  readonly policy_versions: readonly number[];
  readonly step?: number;
  readonly cell?: string;
  /** `NAME@TURN` of each sub-agent down to the chat's own. Absent: the rollout's agent. */
  readonly agent_path?: readonly string[];
  readonly segment?: number;
  readonly parts?: Readonly<Record<string, number>>;
  readonly metrics?: Readonly<Record<string, number>>;
}

export interface ChatRecord {
  readonly messages: readonly ChatMessage[];
  readonly tools: ChatContext['tools'];
  /** `null`: it was not graded. */
  readonly reward: number | null;
  readonly passed: boolean;
  readonly reason: string;
  /** Why nothing is learned from it. `null`: it may be trained on. */
  readonly masked: string | null;
  readonly metadata: ChatMetadata;
}

/** Calls get ids in their order, and answers those of the calls before them. */
export function chatMessages(messages: readonly Message[]): ChatMessage[] {
  let made = 0;
  let open: string[] = [];
  return messages.map((message): ChatMessage => {
    const { role, content } = message;
    if (message.role === 'tool') {
      const id = open.shift();
      return { role, content, name: message.name, ...(id !== undefined && { tool_call_id: id }) };
    }
    if (message.role !== 'assistant') return { role, content };
    const calls = (message.toolCalls ?? []).map((call): ChatCall => {
      made += 1;
      return { id: `call_${made}`, type: 'function', function: { name: call.name, arguments: argumentsText(call) } };
    });
    open = calls.map(({ id }) => id);
    if (calls.length > 0) return { role, content, tool_calls: calls };
    return content === '' ? { role, content, weight: 0 } : { role, content };
  });
}

/** The records of a rollout, one for each context. Those in which the policy wrote nothing are left out. */
export function recordsOf(
  rollout: ToldRollout,
  { step, cell }: Pick<ExportedGroup<unknown>, 'step' | 'cell'>,
): ChatRecord[] {
  const { outcome, masked, contexts, trajectory } = rollout;
  const { parts, metrics } = outcome;
  return contexts.flatMap(({ messages, tools, agentPath, segment }) => {
    const chat = chatMessages(messages);
    if (!chat.some(({ role, weight }) => role === 'assistant' && weight !== 0)) return [];
    const metadata: ChatMetadata = {
      rollout: outcome.rollout,
      task: outcome.task,
      finish: outcome.finish,
      failure: outcome.failure,
      sampled_tokens: trajectory.sampledTokens,
      policy_versions: trajectory.policyVersions,
      ...(step !== undefined && { step }),
      ...(cell !== undefined && { cell }),
      ...(agentPath && { agent_path: agentPath }),
      ...(segment !== undefined && { segment }),
      ...(parts && { parts }),
      ...(metrics && { metrics }),
    };
    const { reward, passed, reason } = outcome;
    return [{ messages: chat, tools, reward, passed, reason, masked, metadata }];
  });
}
