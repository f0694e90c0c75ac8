/**
 * The services of a task's `docker-compose.yaml`: what of it a sandbox can be. Keys without a meaning for a sandbox
 * (ports, names, volumes for logs) are left out; what would change the task (shared volumes, privileges) is refused.
 */

import { parse } from 'yaml';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { filled, type Variables } from './templates.ts';

const scalar = z.union([z.string(), z.number(), z.boolean()]).transform(String);
const command = z.union([z.string().transform((text) => ['/bin/sh', '-c', text]), z.array(scalar)]);
const environment = z
  .union([
    z.record(z.string(), z.union([scalar, z.null().transform(() => '')])),
    z.array(z.string()).transform((lines) => Object.fromEntries(lines.map((line) => splitAt(line, '=')))),
  ])
  .default({});

const service = z.object({
  build: z
    .union([
      z.string().transform((context) => ({ context, dockerfile: 'Dockerfile', args: {} })),
      z.object({ context: z.string().default('.'), dockerfile: z.string().default('Dockerfile'), args: environment }),
    ])
    .optional(),
  image: z.string().optional(),
  command: command.nullish(),
  entrypoint: command.nullish(),
  environment,
  working_dir: z.string().optional(),
  volumes: z.array(z.union([z.string(), z.object({ source: z.string().optional(), target: z.string() })])).default([]),
  healthcheck: z
    .object({ test: z.union([z.string(), z.array(z.string())]).optional(), retries: z.number().optional() })
    .optional(),
  privileged: z.boolean().default(false),
  cap_add: z.array(z.string()).default([]),
});
export type Service = z.output<typeof service>;

const schema = z.object({ services: z.record(z.string(), service) });

function splitAt(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

/** Every text of the document with its places filled; those of images and names may stay empty. */
function filledDeep(value: unknown, variables: Variables, file: string): unknown {
  if (typeof value === 'string')
    return filled(value.replaceAll('$$', '\u0000'), variables, file).replaceAll('\u0000', '$');
  if (Array.isArray(value)) return value.map((one) => filledDeep(one, variables, file));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filledDeep(one, variables, file)]));
  return value;
}

/** Folders of a container that hold logs alone: each sandbox has its own. */
const LOGS = /^\/(?:logs|agent-logs|tests|solution)(?:\/|$)/u;

/**
 * The services by name. `mine`: the service in which the agent works (`main`, of older tasks `client`). Errors:
 * `UserInputError` with the file and the service.
 */
export function readCompose(text: string, file: string, variables: Variables): Record<string, Service> {
  let given: unknown;
  try {
    given = filledDeep(parse(text), variables, file);
  } catch (error) {
    if (error instanceof UserInputError) throw error;
    throw new UserInputError(file, undefined, `mend its YAML: ${(error as Error).message.split('\n')[0] ?? ''}`);
  }
  const read = schema.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new UserInputError(`${file}: ${issue?.path.join('.') ?? ''}`, undefined, issue?.message ?? 'mend it');
  }
  for (const [name, { privileged, cap_add: rights, volumes }] of Object.entries(read.data.services)) {
    if (privileged || rights.length > 0)
      throw new UserInputError(
        `${file}: services.${name}`,
        privileged ? 'privileged' : rights,
        'sandboxes have no privileges: leave the task out',
      );
    const shared = volumes
      .map((volume) => (typeof volume === 'string' ? (volume.split(':')[1] ?? volume) : volume.target))
      .find((target) => !LOGS.test(target));
    if (shared !== undefined)
      throw new UserInputError(
        `${file}: services.${name}.volumes`,
        shared,
        'sandboxes share no folders: copy the files in the Dockerfile, or leave the task out',
      );
  }
  return read.data.services;
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
export const shellLine = (words: readonly string[]): string => words.map(quoted).join(' ');

/** The line that checks a service's health; `undefined` if it has none. */
export function healthLine({ healthcheck }: Service): string | undefined {
  const test = healthcheck?.test;
  if (test === undefined) return undefined;
  if (typeof test === 'string') return test;
  const [kind, ...words] = test;
  if (kind === 'CMD-SHELL') return words.join(' ');
  return kind === 'CMD' ? shellLine(words) : undefined;
}
