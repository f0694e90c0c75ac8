/** What the input of each activity names on this machine: folders and modules, under the field's own name. */

import { resolve } from 'node:path';
import { evalFolder } from '../../reports/evaluation/eval-records.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { absoluteModel } from '../../trainer/hub/hub-id.ts';

/** `policy`: a folder that may lead to another one; `run`: a folder that is made for a run or an eval. */
export interface Named {
  readonly field: string;
  readonly path: string;
  readonly kind: 'policy' | 'files' | 'write' | 'run' | 'module';
}

/** The value at a dotted path; `undefined` where there is none. */
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

/** A model of a hub has no place of its own choice. */
function model(field: string, text: string | undefined): Named[] {
  const path = text === undefined ? undefined : absoluteModel(text, process.cwd());
  return path === undefined || path.startsWith('hf:') ? [] : [{ field, path, kind: 'policy' }];
}

/** What has another name is refused where it is read. */
function folderIn(field: string, dir: string, name: unknown): Named[] {
  const isName = typeof name === 'string' && /^\w[\w.+-]*$/.test(name);
  return [{ field, path: isName ? resolve(dir, name) : resolve(dir), kind: 'run' }];
}

function inRun(config: unknown, run: unknown): Named[] {
  return [
    ...folderIn('dir', textAt(config, 'dir') ?? 'runs', run ?? at(config, 'run')),
    ...model('policy.base', textAt(config, 'policy.base')),
    ...model('algorithm.critic.base', textAt(config, 'algorithm.critic.base')),
    ...named(config, 'algorithm.module', 'module'),
  ];
}

function inSweepPolicy(policy: unknown, index: number): Named[] {
  const text = typeof policy === 'string' ? policy : textAt(policy, 'policy');
  const field = `policies.${index}`;
  const tokenizer = named(policy, 'endpoint.tokenizer', 'files').map((one) => ({
    ...one,
    field: `${field}.${one.field}`,
  }));
  const isDirectory = text !== undefined && parsePolicyReference(text).kind === 'directory';
  return [...tokenizer, ...(isDirectory ? model(field, text) : [])];
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
  ...named(input, 'policy.dir', 'policy'),
  ...model('algorithm.critic.base', textAt(input, 'algorithm.critic.base')),
  ...named(input, 'algorithm.module', 'module'),
];

const BY_ACTIVITY: Readonly<Record<string, (...args: readonly unknown[]) => Named[]>> = {
  openRun: inRun,
  openSweep: (input) => inSweep(at(input, 'given'), at(input, 'eval')),
  checkEndpoint: (input) =>
    named(input, 'endpoint.tokenizer', 'files').map((one) => ({
      ...one,
      field: `${textAt(input, 'field') ?? 'endpoint'}.tokenizer`,
    })),
  generate: (input) => [...named(input, 'policy.dir', 'policy'), ...named(input, 'policy.endpoint.tokenizer', 'files')],
  update: inUpdate,
  planUpdate: inUpdate,
  // What a run's steps are said to be is what its policies are found by.
  recordStep: (input) => [...named(input, 'runDir', 'write'), ...named(input, 'policy.dir', 'policy')],
};

/** Parts of the names of folders and files: as text they would lead anywhere. */
const NUMBERS = ['step', 'record.step', 'round', 'shard'] as const;

/** Of any other activity, the folders that it writes to. */
const otherwise = (input: unknown): Named[] => [...named(input, 'runDir', 'write'), ...named(input, 'dir', 'write')];

export function namedInInput(activity: string, args: readonly unknown[]): Named[] {
  return (Object.hasOwn(BY_ACTIVITY, activity) ? BY_ACTIVITY[activity] : otherwise)?.(...args) ?? [];
}

/** The run that an activity's input names. */
export function runOf(activity: string, [input, run]: readonly unknown[]): string | undefined {
  return activity === 'openRun' && typeof run === 'string' ? run : textAt(input, 'run');
}

/** The first number of an activity's input that is none, with its field. */
export function brokenNumber([input]: readonly unknown[]):
  | { readonly field: string; readonly value: unknown }
  | undefined {
  const fields = NUMBERS.map((field) => ({ field, value: at(input, field) }));
  return fields.find(({ value }) => value !== undefined && (!Number.isSafeInteger(value) || Number(value) < 0));
}
