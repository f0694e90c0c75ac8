/**
 * An episode of a Python environment, as Longhaul records it: its actions, and a digest of each reply. An object of
 * Python cannot be recorded. So a process that has none makes a new one, gives it the recorded actions, and compares
 * its replies with the recorded digests.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';
import { PythonFailed, type Reply } from './python-process.ts';

/** The object was made again, and replied otherwise than before: the environment is not deterministic. */
export class PythonReplayDiffers extends Error {
  override readonly name = 'PythonReplayDiffers';
  /** Number of the action, from 1; 0 is `init`. */
  readonly action: number;

  constructor(env: string, action: number) {
    super(
      `${env} was made again after its process was lost, and ${action === 0 ? 'init' : `action ${action}`} ` +
        'gave another reply than before: an environment that draws random numbers must take its seed from the ' +
        'record, or be recorded whole (task.options.replay: pickle)',
    );
    this.action = action;
  }
}

/** JSON: the state that each turn's record has. */
export interface Episode {
  readonly actions: readonly string[];
  /** Digests of the replies, that of `init` first. */
  readonly replies: readonly string[];
  readonly rewards: readonly number[];
  readonly metrics: Readonly<Record<string, number>>;
  readonly done: boolean;
  /** Base64. Present with `replay: pickle`. */
  readonly pickle?: string;
}

const shape = z.object({
  messages: z.array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })),
  reward: z.number().default(0),
  done: z.boolean().default(false),
  metrics: z.record(z.string(), z.number()),
  pickle: z.string().optional(),
});

export type Answer = Omit<z.infer<typeof shape>, 'messages'> & { readonly messages: readonly Message[] };

/** Errors: `PythonFailed` if it is none. */
export function answerOf(reply: Reply | undefined): Answer {
  const parsed = shape.safeParse(reply);
  if (parsed.success) return parsed.data;
  throw new PythonFailed(`the adapter's reply cannot be read: ${JSON.stringify(reply)?.slice(0, 300) ?? 'none'}`);
}

/** What must be the same when the object is made again. */
export function digestOf({ messages, reward, done, metrics }: Answer): string {
  const sorted = Object.entries(metrics).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([messages, reward, done, sorted]))
    .digest('hex')
    .slice(0, 32);
}

export function begun(answer: Answer): Episode {
  const { metrics, pickle } = answer;
  return {
    actions: [],
    replies: [digestOf(answer)],
    rewards: [],
    metrics,
    done: false,
    ...(pickle !== undefined && { pickle }),
  };
}

export function continued(episode: Episode, action: string, answer: Answer): Episode {
  const { reward, metrics, done, pickle } = answer;
  return {
    actions: [...episode.actions, action],
    replies: [...episode.replies, digestOf(answer)],
    rewards: [...episode.rewards, reward],
    metrics,
    done,
    ...(pickle !== undefined && { pickle }),
  };
}

/** Errors: `PythonReplayDiffers` if a reply of an object that was made again is not the recorded one. */
export function checkReplay(env: string, { replies }: Episode, action: number, answer: Answer): void {
  if (replies[action] !== digestOf(answer)) throw new PythonReplayDiffers(env, action);
}
