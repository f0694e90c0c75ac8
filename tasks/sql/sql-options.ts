/** What may be set of every environment of text-to-SQL: how the policy answers, and how its answer is graded. */

import { z } from 'zod';
import { VERDICTS } from './verdicts.ts';

const seconds = z.number().min(0.1).max(300);

export const sqlOptions = {
  /** `skyrl`: tags in messages, answered by `step`. `tool`: the tools `sql` and `finish`. */
  protocol: z.enum(['skyrl', 'tool']).default('skyrl'),
  verdict: z.enum(VERDICTS).default('skyrl'),
  /** With the verdict `spider`: DISTINCT counts. */
  keepDistinct: z.boolean().default(false),
  /** With the protocol `skyrl`; a record's `max_turns` goes before it. */
  maxTurns: z.int().min(1).max(1000).default(5),
  /** Of one query of the policy, and of one that is graded. */
  querySeconds: seconds.default(5),
  gradeSeconds: seconds.default(30),
};
