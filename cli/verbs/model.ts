/** `longhaul model`: what a policy is, the context that it has here, and the memory that this takes. */

import { modelUri } from '../../trainer/hub/hub-id.ts';
import { describePolicy, readModelConfig } from '../../trainer/model/describe-policy.ts';
import { contextBound } from '../../trainer/sampler/cache/cache-budget.ts';
import { checkPolicy } from '../../activities/orchestrator/open-policy.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { UserInputError } from '../../client/errors.ts';
import { contextHere, surroundings } from '../connect/context-here.ts';
import { gibibytes } from '../train/memory-plan.ts';
import type { Outcome, Verb, VerbContext } from '../verb.ts';

async function describe(model: string, { say, env, cwd }: VerbContext): Promise<Outcome> {
  const dir = await checkPolicy(modelUri(model, cwd), 'model');
  const { family, layers, heads, kvHeads, headDim } = await readModelConfig(dir).catch((error: unknown) => {
    throw new UserInputError('model', model, `give another model: ${String(error)}`, { cause: error });
  });
  const { parameters, vocabulary } = await describePolicy(dir);
  const context = await contextHere(dir, surroundings(env, stackHome(env, cwd)));
  if (context === undefined) throw new UserInputError('model', model, 'give a directory with a readable config.json');
  const { tokens, bytesPerToken, cacheBytes } = context;
  const weightBytes = 4 * parameters;
  say(`${dir}`);
  say(
    `${family}: ${parameters} parameters, ${vocabulary} vocabulary entries, ${layers} layers, ` +
      `${heads} heads of ${headDim} (${kvHeads} of keys and values)`,
  );
  say(`weights: ${gibibytes(weightBytes)} in float32`);
  say(`context: ${tokens} tokens here (${contextBound(context)})`);
  say(
    `cache: ${gibibytes(cacheBytes)} of keys and values; a token takes ${(bytesPerToken / 1024).toFixed(1)} ` +
      `KiB, a full context ${gibibytes(tokens * bytesPerToken)}, ` +
      `and ${Math.floor(cacheBytes / (tokens * bytesPerToken))} of them fit`,
  );
  return { document: { dir, family, parameters, vocabulary, weightBytes, context } };
}

export const modelVerb: Verb = {
  define(command, run) {
    command
      .description('Shows a policy: its family and size, and the context that it has in the memory of this machine.')
      .argument('<model>', 'a directory in Hugging Face layout, or a hub id')
      .action((model: string) => run((context) => describe(model, context)));
  },
};
