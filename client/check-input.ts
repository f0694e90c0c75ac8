/** Checks a rollout's input before it starts: a misspelt setting would otherwise silently leave a default in place. */

import { z } from 'zod';
import { agentSchema, parseSettings, samplingSchema } from '../config/run-config.ts';
import { judgesIn, judgesSchema } from '../config/judges-schema.ts';
import { resolvePolicy } from '../workflows/rollout/resolve-policy.ts';
import type { RolloutInput } from '../protocol/rollout.ts';
import { UserInputError } from './errors.ts';

const number = z.int().min(0).optional();

const schema = z.strictObject({
  task: z.string().min(1),
  catalog: z.templateLiteral(['sha256:', z.string()]).optional(),
  policy: z.unknown(),
  agent: agentSchema.optional(),
  sampling: samplingSchema.optional(),
  judges: judgesSchema,
  run: z.string().min(1).optional(),
  step: number,
  sample: number,
  seed: number,
  gates: z.array(z.enum(['agent-run', 'reward'])).optional(),
  reportsEnd: z.boolean().optional(),
  holds: z.boolean().optional(),
});

/** Errors: `UserInputError`, which never contains a key that is in the wrong place. */
export function checkRolloutInput(input: RolloutInput): void {
  resolvePolicy(input.policy, (field, value, remedy) => {
    throw new UserInputError(field, value, remedy);
  });
  judgesIn(input);
  parseSettings(schema, input);
}
