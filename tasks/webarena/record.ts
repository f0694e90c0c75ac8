/** WebArena's records: what of them a task needs, with the marks of sites (`__SHOPPING__`) replaced by addresses. */

import { z } from 'zod';

const texts = z.array(z.string());

const answers = z.object({
  exact_match: z.union([z.string(), z.number().transform(String)]).optional(),
  must_include: texts.optional(),
  fuzzy_match: z.union([z.literal('N/A'), texts, z.string().transform((text) => [text])]).optional(),
});

const target = z.object({
  url: z.string(),
  locator: z.string(),
  required_contents: z
    .object({ exact_match: z.string().optional(), must_include: texts.optional() })
    .refine(
      ({ exact_match: exact, must_include: included }) => exact !== undefined || included !== undefined,
      'give exact_match or must_include',
    ),
  prep_actions: texts.default([]),
});
export type Target = z.output<typeof target>;

const evaluation = z.object({
  eval_types: z.array(z.enum(['string_match', 'url_match', 'program_html'])).min(1),
  reference_answers: answers.nullish(),
  reference_url: z.string().nullish(),
  url_note: z.enum(['GOLD in PRED']).nullish(),
  program_html: z.array(target).nullish(),
  string_note: z.string().nullish(),
});

export const webArenaRecord = z
  .object({
    sites: texts,
    task_id: z.union([z.int(), z.string()]),
    start_url: z.string().min(1),
    intent: z.string().min(1),
    storage_state: z.string().nullish(),
    eval: evaluation,
  })
  .refine(
    ({ eval: { eval_types: types, reference_answers: given } }) => !types.includes('string_match') || given != null,
    { path: ['eval', 'reference_answers'], message: 'string_match needs reference answers' },
  )
  .refine(({ eval: { eval_types: types, reference_url: url } }) => !types.includes('url_match') || Boolean(url), {
    path: ['eval', 'reference_url'],
    message: 'url_match needs a reference_url',
  });
export type WebArenaRecord = z.output<typeof webArenaRecord>;

/** The sites by their names in the option `sites`, and their marks in records. */
export const SITES = ['shopping', 'shopping_admin', 'reddit', 'gitlab', 'wikipedia', 'map', 'homepage'] as const;
export type Sites = Partial<Record<(typeof SITES)[number], string>>;

const MARK = /__(SHOPPING_ADMIN|SHOPPING|REDDIT|GITLAB|WIKIPEDIA|MAP|HOMEPAGE)__/gu;
const siteOf = (mark: string): keyof Sites => mark.toLowerCase() as keyof Sites;

/** Every text of a value with the marks of known sites replaced. */
export function withSites<T>(value: T, sites: Sites): T {
  const replaced = (given: unknown): unknown => {
    if (typeof given === 'string')
      return given.replaceAll(MARK, (mark, name: string) => sites[siteOf(name)]?.replace(/\/+$/u, '') ?? mark);
    if (Array.isArray(given)) return given.map(replaced);
    if (typeof given === 'object' && given !== null)
      return Object.fromEntries(Object.entries(given).map(([name, one]) => [name, replaced(one)]));
    return given;
  };
  return replaced(value) as T;
}

/** The sites of a record that have no address. */
export function sitesWithout(record: WebArenaRecord, sites: Sites): string[] {
  const marked = [...JSON.stringify(record).matchAll(MARK)].map(([, name = '']) => siteOf(name));
  const named = record.sites.filter((name): name is keyof Sites => (SITES as readonly string[]).includes(name));
  return [...new Set([...marked, ...named])].filter((name) => sites[name] === undefined);
}
