/**
 * The cases of algorithms.json: conversion of [batch][time] arrays to rows and back, and comparisons that name the case
 * and the position.
 */

import { describe, expect, test } from 'vitest';
import { startsOf, type Values } from '../../../trainer/algorithms/rows.ts';
import { readJson, vectors } from '../tiny-policy.ts';

export type Table = readonly (readonly number[])[];
export interface Named {
  readonly name?: string;
}

const all = readJson<Record<string, unknown>>(vectors, 'algorithms.json');

/** A test for each case of a section; a part of a section is named with a dot. */
export function eachCase<T extends Named>(section: string, check: (given: T, where: string) => void): void {
  const found = section
    .split('.')
    .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], all);
  const cases = (found ?? []) as T[];
  describe(section, () => {
    if (cases.length === 0) test.skip(`${section} is not in this file`, () => undefined);
    for (const [i, given] of cases.entries()) {
      const name = given.name ?? String(i);
      test(name, () => check(given, `algorithms.json ${section} ${name}`));
    }
  });
}

export const flat = (rows: Table): number[] => rows.flat();
export const lengthsOf = (rows: Table): number[] => startsOf(rows.map((row) => row.length));
export const sumOf = (row: readonly number[]): number => row.reduce((sum, x) => sum + x, 0);

/** |got − want| ≤ tolerance · max(1, |want|). */
export function close(where: string, got: number, want: number, tolerance = 1e-7): void {
  if (!(Math.abs(got - want) <= tolerance * Math.max(1, Math.abs(want))))
    expect.fail(`${where}: expected ${want}, got ${got}`);
}

export function closeAll(where: string, got: Values, want: Values, tolerance = 1e-7): void {
  expect(got.length, `${where}: entries`).toBe(want.length);
  for (let i = 0; i < want.length; i++) close(`${where}[${i}]`, got[i]!, want[i]!, tolerance);
}

/** Expects exactly these metrics; `null` means `undefined`. */
export function sameMetrics(
  where: string,
  got: Readonly<Record<string, number>>,
  want: Readonly<Record<string, number | null>>,
): void {
  for (const [name, value] of Object.entries(want)) {
    if (value === null) continue;
    close(`${where} ${name}`, got[name] ?? NaN, value);
  }
  expect(
    Object.keys(got).filter((name) => !(name in want)),
    `${where}: metrics that are not asked for`,
  ).toEqual([]);
}

/** If the case must fail, expects that `run` does. Returns whether it must. */
export function mustFail(where: string, expected: unknown, run: () => unknown): boolean {
  if (typeof expected !== 'object' || expected === null || !('error' in expected)) return false;
  expect(run, `${where}: expected ${String(expected.error)}`).toThrow();
  return true;
}
