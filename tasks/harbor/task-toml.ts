/**
 * A task's `task.toml` (Harbor's schema 1.x), checked and with its older spellings read as today's. Unknown keys are
 * ignored, as upstream ignores them; what this machine could not hold is refused, not skipped.
 */

import { parse } from 'smol-toml';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';

const seconds = z.number().positive();
const texts = z.record(z.string(), z.string());

/** `2048`, `"2G"`, `"512M"`, `"2048 MB"`: MiB, as the older `memory` and `storage` give them. */
const size = z.union([
  z.number().positive(),
  z.string().transform((text, context) => {
    const [, number, unit = 'm'] = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$/iu.exec(text) ?? [];
    const factor = { k: 1 / 1024, m: 1, g: 1024, t: 1024 * 1024 }[(unit || 'm').toLowerCase()];
    if (number !== undefined && factor !== undefined) return Number(number) * factor;
    context.addIssue({ code: 'custom', message: 'give a size, such as 2048 or "2G"' });
    return z.NEVER;
  }),
]);

const network = { network_mode: z.string().optional(), allow_internet: z.boolean().optional() };

const healthcheck = z.object({
  command: z.string().min(1),
  interval_sec: z.number().nonnegative().default(5),
  timeout_sec: seconds.default(30),
  start_period_sec: z.number().nonnegative().default(0),
  start_interval_sec: z.number().nonnegative().default(5),
  retries: z.int().positive().default(3),
});
export type Healthcheck = z.output<typeof healthcheck>;

const environment = z.object({
  docker_image: z.string().min(1).optional(),
  build_timeout_sec: seconds.default(600),
  cpus: z.number().positive().optional(),
  memory_mb: size.optional(),
  memory: size.optional(),
  storage_mb: size.optional(),
  storage: size.optional(),
  gpus: z.number().nonnegative().default(0),
  os: z.string().optional(),
  env: texts.default({}),
  workdir: z.string().optional(),
  skills_dir: z.string().optional(),
  healthcheck: healthcheck.optional(),
  mcp_servers: z
    .array(
      z.object({
        name: z.string(),
        transport: z.string().default('sse'),
        url: z.string().optional(),
        command: z.string().optional(),
        args: z.array(z.string()).default([]),
      }),
    )
    .default([]),
  ...network,
});

const artifact = z.union([
  z.string().transform((source) => ({ source, service: undefined as string | undefined })),
  z.object({ source: z.string(), service: z.string().optional() }),
]);

const verifier = {
  timeout_sec: seconds.optional(),
  env: texts.default({}),
  environment_mode: z.enum(['shared', 'separate']).optional(),
  environment: environment.optional(),
  collect: z
    .array(z.object({ command: z.string(), service: z.string().optional(), timeout_sec: seconds.default(600) }))
    .default([]),
  ...network,
};

const agent = z.object({ timeout_sec: seconds.optional(), ...network });

const step = z.object({
  name: z.string().regex(/^[\w][\w.-]*$/u, 'give the name of a folder below steps'),
  min_reward: z.union([z.number(), z.record(z.string(), z.number())]).optional(),
  agent: agent.optional(),
  verifier: z.object(verifier).optional(),
  healthcheck: healthcheck.optional(),
});

const schema = z.object({
  task: z.object({ name: z.string().optional() }).optional(),
  agent: agent.default({}),
  verifier: z.object(verifier).prefault({}),
  environment: environment.prefault({}),
  solution: z.object({ env: texts.default({}) }).prefault({}),
  artifacts: z.array(artifact).default([]),
  steps: z.array(step).optional(),
  multi_step_reward_strategy: z.enum(['mean', 'final']).default('mean'),
});
export type TaskToml = z.output<typeof schema>;
export type TomlEnvironment = TaskToml['environment'];

/** The first place that asks for a network, and what it says. Absent: none does, or nothing is said. */
export function networkAsked({ environment, agent: agents, verifier: graders, steps = [] }: TaskToml) {
  const places: ReadonlyArray<
    readonly [string, { network_mode?: string | undefined; allow_internet?: boolean | undefined } | undefined]
  > = [
    ['environment', environment],
    ['agent', agents],
    ['verifier', graders],
    ['verifier.environment', graders.environment],
    ...steps.flatMap(
      (one) =>
        [
          [`steps.${one.name}.agent`, one.agent],
          [`steps.${one.name}.verifier`, one.verifier],
        ] as const,
    ),
  ];
  for (const [place, given] of places) {
    if (given?.network_mode !== undefined && !['no-network', 'none'].includes(given.network_mode))
      return { field: `${place}.network_mode`, value: given.network_mode };
    if (given?.network_mode === undefined && given?.allow_internet === true)
      return { field: `${place}.allow_internet`, value: true };
  }
  return undefined;
}

/** Reads the text. `file` names it in errors. Errors: `UserInputError` with the file, the field and the remedy. */
export function readTaskToml(text: string, file: string): TaskToml {
  let given: unknown;
  try {
    given = parse(text);
  } catch (error) {
    throw new UserInputError(file, undefined, `mend its TOML: ${(error as Error).message.split('\n')[0] ?? ''}`);
  }
  const read = schema.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    const path = issue?.path ?? [];
    let value: unknown = given;
    for (const name of path) value = (value as Record<PropertyKey, unknown> | undefined)?.[name];
    throw new UserInputError(`${file}: ${path.join('.')}`, value, issue?.message ?? 'mend it');
  }
  const { environment: machine } = read.data;
  if (machine.gpus > 0)
    throw new UserInputError(`${file}: environment.gpus`, machine.gpus, 'sandboxes have no GPU: leave the task out');
  if (machine.os !== undefined && machine.os !== 'linux')
    throw new UserInputError(`${file}: environment.os`, machine.os, 'sandboxes run Linux: leave the task out');
  return read.data;
}
