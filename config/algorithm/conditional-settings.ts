/** Settings that have an effect only with certain other settings: refused if they have none, else filled in. Pure. */

import { z } from 'zod';

type Settings = Readonly<Record<string, unknown>>;

export interface Rule {
  readonly field: string;
  /** True if the field has an effect with these settings. */
  readonly applies: (settings: Settings) => boolean;
  /** Its default if it applies. The settings have the defaults of earlier rules filled in. Absent: no default. */
  readonly fill?: (settings: Settings) => unknown;
  readonly remedy: string;
}

/** The first broken rule. Defaults are filled in first, since they decide which other settings apply. */
export function refusedBy(rules: readonly Rule[], given: Settings): Rule | undefined {
  const settings = filled(rules, given);
  return rules.find(({ field, applies }) => given[field] !== undefined && !applies(settings));
}

/** `given` with the defaults of all settings that apply, without `undefined`. A second call changes nothing. */
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
