/** The folders of this machine that an activity's input names, each with the name of its field. */

import { resolve } from 'node:path';
import { evalFolder } from '../../reports/evaluation/eval-records.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { folderOf } from '../../protocol/policy-uri.ts';
import { isTinkerUri, parseTinkerUri } from '../../protocol/tinker-uri.ts';
import { modelUri } from '../../trainer/hub/hub-id.ts';

/** `policy`: a folder that may refer to another one; `run`: a folder that is made for a run or an eval. */
export interface Named {
  readonly field: string;
  readonly path: string;
  readonly kind: 'policy' | 'files' | 'write' | 'run';
}

/** The value at a dotted path; `undefined` if there is none. */
function at(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (inner, name) =>
        typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
      value,
    );
}

function textAt(value: unknown, path: string): string | undefined {
  const text = at(value, path);
  return typeof text === 'string' ? text : undefined;
}

function named(input: unknown, field: string, kind: Named['kind']): Named[] {
  const path = textAt(input, field);
  return path === undefined || path === '' ? [] : [{ field, path, kind }];
}

/**
 * A model of a hub names no folder: its place is the hub's cache. Nor does a URI of another backend; one of a Tinker
 * server names a tokenizer. Errors: `UserInputError` for such a URI that cannot be read.
 */
function model(field: string, text: string | undefined): Named[] {
  if (text !== undefined && isTinkerUri(text)) {
    const dir = folderOf(modelUri(parseTinkerUri(text, field).tokenizer, process.cwd()));
    return dir === undefined ? [] : [{ field, path: dir, kind: 'files' }];
  }
  const path = text === undefined ? undefined : folderOf(modelUri(text, process.cwd()));
  return path === undefined ? [] : [{ field, path, kind: 'policy' }];
}

/** The folder of a run or an eval. An invalid name fails where the configuration is read. */
function folderIn(field: string, dir: string, name: unknown): Named[] {
  const isName = typeof name === 'string' && /^\w[\w.+-]*$/.test(name);
  return [{ field, path: isName ? resolve(dir, name) : resolve(dir), kind: 'run' }];
}

/** A model on a Tinker server has a name there and not a folder here; its tokenizer is read. */
function firstPolicy(config: unknown): Named[] {
  const base = textAt(config, 'policy.base');
  if (textAt(config, 'policy.backend') !== 'tinker' || base === undefined || isTinkerUri(base))
    return model('policy.base', base);
  return model('policy.server.tokenizer', textAt(config, 'policy.server.tokenizer') ?? base);
}

function inRun(config: unknown, run: unknown): Named[] {
  return [
    ...folderIn('dir', textAt(config, 'dir') ?? 'runs', run ?? at(config, 'run')),
    ...firstPolicy(config),
    ...model('algorithm.critic.base', textAt(config, 'algorithm.critic.base')),
  ];
}

function inSweepPolicy(policy: unknown, index: number): Named[] {
  const text = typeof policy === 'string' ? policy : textAt(policy, 'policy');
  const field = `policies.${index}`;
  const tokenizer = named(policy, 'endpoint.tokenizer', 'files').map((one) => ({
    ...one,
    field: `${field}.${one.field}`,
  }));
  const isModel = text !== undefined && parsePolicyReference(text).kind === 'model';
  return [...tokenizer, ...(isModel ? model(field, text) : [])];
}

function inSweep(config: unknown, id: unknown): Named[] {
  const policies = at(config, 'policies');
  const name = typeof id === 'string' ? evalFolder('', id) : undefined;
  return [
    ...folderIn('dir', textAt(config, 'dir') ?? 'evals', name),
    ...(Array.isArray(policies) ? policies.flatMap(inSweepPolicy) : []),
  ];
}

const inUpdate = (input: unknown): Named[] => [
  ...named(input, 'runDir', 'write'),
  ...model('policy.uri', textAt(input, 'policy.uri')),
  ...model('algorithm.critic.base', textAt(input, 'algorithm.critic.base')),
];

const BY_ACTIVITY: Readonly<Record<string, (...args: readonly unknown[]) => Named[]>> = {
  openRun: inRun,
  openSweep: (input) => inSweep(at(input, 'given'), at(input, 'eval')),
  checkEndpoint: (input) =>
    named(input, 'endpoint.tokenizer', 'files').map((one) => ({
      ...one,
      field: `${textAt(input, 'field') ?? 'endpoint'}.tokenizer`,
    })),
  generate: (input) => [
    ...model('policy.uri', textAt(input, 'policy.uri')),
    ...named(input, 'policy.endpoint.tokenizer', 'files'),
  ],
  openEngine: (input) => {
    const policies = at(input, 'policies');
    return Array.isArray(policies) ? policies.flatMap((one) => model('policy.uri', textAt(one, 'uri'))) : [];
  },
  update: inUpdate,
  planUpdate: inUpdate,
  // Policies of a run are found by what its steps record.
  recordStep: (input) => [...named(input, 'runDir', 'write'), ...model('policy.uri', textAt(input, 'policy.uri'))],
};

/** Fields that become parts of folder and file names: a text instead of a number could name any path. */
const NUMBERS = ['step', 'record.step', 'round', 'shard'] as const;

/** For every other activity: the folders that it writes to. */
const otherwise = (input: unknown): Named[] => [...named(input, 'runDir', 'write'), ...named(input, 'dir', 'write')];

export function namedInInput(activity: string, args: readonly unknown[]): Named[] {
  return (Object.hasOwn(BY_ACTIVITY, activity) ? BY_ACTIVITY[activity] : otherwise)?.(...args) ?? [];
}

/** The first of these fields whose value is not a whole number of at least 0, with its name. */
export function brokenNumber([input]: readonly unknown[]):
  | { readonly field: string; readonly value: unknown }
  | undefined {
  const fields = NUMBERS.map((field) => ({ field, value: at(input, field) }));
  return fields.find(({ value }) => value !== undefined && (!Number.isSafeInteger(value) || Number(value) < 0));
}
