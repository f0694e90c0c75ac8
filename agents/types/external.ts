/**
 * The agent that is a program of its own: Longhaul prepares, waits, collects and grades. The program runs in the
 * sandbox if there is a `command`; else it runs elsewhere, and reports its turns and its end.
 */

import { z } from 'zod';
import { LONGEST_PROGRAM_SECONDS } from '../../protocol/limits.ts';
import type { AgentType } from '../agent.ts';

const options = z.strictObject({
  /**
   * Run once, through `/bin/bash -c` in the sandbox `main`. What it prints is the answer. Absent: it runs elsewhere.
   */
  command: z.string().min(1).max(65_536).optional(),
  /** How long it may work. */
  timeoutSeconds: z.number().min(1).max(LONGEST_PROGRAM_SECONDS).default(3600),
  /** True if it reports the sampled tokens of every turn. A training run needs them. */
  tokens: z.boolean().default(false),
  /** True: it gets an address and a key, and its model calls there are turns of the rollout. */
  gateway: z.boolean().default(false),
});

export type ExternalOptions = z.output<typeof options>;

export const externalAgent: AgentType<ExternalOptions> = {
  name: 'external',
  options,
  reads: 'calls',

  program: ({ command, timeoutSeconds, tokens, gateway }) => ({
    ...(command !== undefined && { command }),
    timeoutSeconds,
    tokens,
    gateway,
  }),

  /** Of a script that acts in the program's place. */
  decide({ parsed, tools, hasStep }) {
    if (parsed.kind !== 'calls') return { do: hasStep ? 'step' : 'answer' };
    const finishes = tools.includes('finish') && parsed.calls.some(({ name }) => name === 'finish');
    return { do: finishes ? 'finish' : 'act' };
  },
};
