/**
 * The provider of a home's sandboxes: chosen once, written into the home, and used by every process from then on. A
 * process with another provider would not find the other processes' sandboxes.
 */

import { readFileSync } from 'node:fs';
import { writeWhole } from '#setup/files.mjs';
import type { SandboxSettings } from './settings.ts';

export const PROVIDERS = ['bubblewrap', 'docker'] as const;
export type ProviderName = (typeof PROVIDERS)[number];

export interface SandboxChoice {
  readonly provider: ProviderName;
  /** The setting that chose it, `NAME=VALUE`. */
  readonly by: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

export const choiceFile = (sandboxDir: string): string => `${sandboxDir}.json`;

/** The folder of the records of one provider's sandboxes. */
export const stateDirOf = (provider: ProviderName, sandboxDir: string): string =>
  provider === 'docker' ? `${sandboxDir}-docker` : sandboxDir;

export interface Asked {
  readonly provider: ProviderName;
  readonly setting: string;
  readonly value: string;
}

/** The provider that the settings name; `undefined` if they name none. An image or a runtime implies Docker. */
export function askedFor({ provider, image, runtime }: SandboxSettings): Asked | undefined {
  if (provider !== 'auto') return { provider, setting: 'LONGHAUL_SANDBOX', value: provider };
  if (image !== undefined) return { provider: 'docker', setting: 'LONGHAUL_DOCKER_IMAGE', value: image };
  return runtime === undefined ? undefined : { provider: 'docker', setting: 'LONGHAUL_DOCKER_RUNTIME', value: runtime };
}

/** Errors: a `TypeError` if the file does not hold a choice. */
export function readChoice(sandboxDir: string): SandboxChoice | undefined {
  const path = choiceFile(sandboxDir);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  const choice = parse(text);
  if (choice === undefined)
    throw new TypeError(
      `${path}: ${JSON.stringify(text.slice(0, 200))} cannot be used; remove the file, ` +
        'and the next worker chooses again',
    );
  return choice;
}

function parse(text: string): SandboxChoice | undefined {
  try {
    const { provider, by, at } = JSON.parse(text) as Partial<SandboxChoice>;
    return provider !== undefined && PROVIDERS.includes(provider) && typeof by === 'string' && typeof at === 'string'
      ? { provider, by, at }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Atomic: a reader finds one whole choice. */
export function writeChoice(sandboxDir: string, provider: ProviderName, asked: Asked | undefined): void {
  const by = asked === undefined ? 'LONGHAUL_SANDBOX=auto' : `${asked.setting}=${asked.value}`;
  const choice: SandboxChoice = { provider, by, at: new Date().toISOString() };
  writeWhole(choiceFile(sandboxDir), `${JSON.stringify(choice)}\n`);
}

export const describeChoice = ({ provider, by, at }: SandboxChoice): string => `${provider}, chosen on ${at} by ${by}`;
