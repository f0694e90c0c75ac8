/** Settings that have an effect under others alone: refused where they have none, filled in where they have. Pure. */

import { z } from 'zod';

type Settings = Readonly<Record<string, unknown>>;

export interface Rule {
  readonly field: string;
  /** Whether the field has an effect under these settings. */
  readonly applies: (settings: Settings) => boolean;
  /** Its default where it applies, from the settings with the rules before this one filled in; absent: none. */
  readonly fill?: (settings: Settings) => unknown;
  readonly remedy: string;
}

/** Judged with defaults in place, since one setting's default decides whether another applies. */
export function refusedBy(rules: readonly Rule[], given: Settings): Rule | undefined {
  const settings = filled(rules, given);
  return rules.find(({ field, applies }) => given[field] !== undefined && !applies(settings));
}

/** `given` with the defaults of what applies; what is `undefined` is left out. Filled again, it stays as it is. */
export function filled(rules: readonly Rule[], given: Settings): Record<string, unknown> {
  let settings: Settings = given;
  for (const { field, applies, fill } of rules) {
    if (settings[field] === undefined && fill && applies(settings)) settings = { ...settings, [field]: fill(settings) };
  }
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

/** The schema, with its rules checked and its defaults filled in. */
export function withRules<T extends z.ZodType<Record<string, unknown>>>(schema: T, rules: readonly Rule[]) {
  return schema
    .superRefine((settings, context) => {
      const refused = refusedBy(rules, settings);
      if (refused) context.addIssue({ code: 'custom', path: [refused.field], message: refused.remedy });
    })
    .transform((settings) => filled(rules, settings));
}
