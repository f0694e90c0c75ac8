/**
 * The environment `webarena`: tasks on web sites, which the policy does in a browser. Its answer, the last address and
 * the pages are graded by WebArena's rules. The sites run in the task's sandbox, since a sandbox reaches nothing else.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';
import { lookInBrowser, type LookTarget } from '../../agents/tools/browser/run-server.ts';
import { readRecords, type Records } from '../data/read-records.ts';
import { recordsDataset } from '../data/records-dataset.ts';
import type { Dataset, Environment, SandboxRequest, Task, TaskContext } from '../environment.ts';
import { digestOf, filesIn } from '../harbor/folder.ts';
import { addressLooks, contentLooks, needsShoppingAdmin, type Places } from './locators.ts';
import { SITES, sitesWithout, type WebArenaRecord, webArenaRecord, withSites } from './record.ts';
import { gradeWebArena, type PageState } from './verdict.ts';

const LOOK_MS = 240_000;
const START_MS = 180_000;
const WORKDIR = '/site';
const path = z.string().min(1, 'give the path of a file of records');
const address = z.url({ protocol: /^https?$/u, error: 'give an address that starts with http:// or https://' });

export const webArenaOptions = z.strictObject({
  /** A file of records for each split, or several. */
  data: z
    .record(z.string(), z.union([path, z.array(path).min(1)]))
    .refine((data) => Object.keys(data).length > 0, 'give a file for at least one split, such as test'),
  /** Addresses of the sites. Records of a site without one are left out. */
  sites: z.partialRecord(z.enum(SITES), address),
  /** Name of the judge that compares answers. Absent: records that need one are left out. */
  judge: z.string().optional(),
  /** The shop's administrator, whom some records ask about its state. Absent: these are left out. */
  shoppingAdmin: z.strictObject({ username: z.string(), password: z.string() }).optional(),
  /** Where the browser and the sites run. */
  sandbox: z
    .strictObject({
      /** With Chromium in it; for Docker. */
      image: z.string().optional(),
      /** Its files come into the sandbox's folder. */
      folder: z.string().optional(),
      /** Starts the sites: it must return. */
      setup: z.string().optional(),
      memoryMiB: z.int().positive().default(1536),
      diskMiB: z.int().positive().default(512),
      cpus: z.number().positive().default(1),
    })
    .prefault({}),
});
export type WebArenaOptions = z.output<typeof webArenaOptions>;

const needsJudge = ({ eval: { eval_types: types, reference_answers: given } }: WebArenaRecord): boolean =>
  types.includes('string_match') && given?.fuzzy_match !== undefined;

/** Why a record is left out; `undefined` if it is not. */
function whyLeftOut(record: WebArenaRecord, { sites, judge, shoppingAdmin }: WebArenaOptions): string | undefined {
  const [site] = sitesWithout(record, sites);
  if (site !== undefined) return `the site ${site} has no address (options.sites)`;
  if (needsJudge(record) && judge === undefined) return 'a judge compares answers (options.judge)';
  if (needsShoppingAdmin(record) && shoppingAdmin === undefined)
    return "the shop's state is asked (options.shoppingAdmin)";
  return undefined;
}

/** The browser's state for the verdict. What the policy's own pages prevent is an empty state. */
async function stateOf(record: WebArenaRecord, ctx: TaskContext, places: Places): Promise<PageState> {
  const sandbox = await ctx.sandbox();
  const targets = record.eval.eval_types.includes('program_html') ? (record.eval.program_html ?? []) : [];
  const look = async (name: string, wanted: readonly LookTarget[]) =>
    await lookInBrowser(wanted, { sandbox, callId: `${ctx.id}/${ctx.execution}/${name}`, timeoutMs: LOOK_MS });
  const none: PageState = { url: '', values: [] };
  const first = await look('url', []);
  if (typeof first === 'string') return none;
  const asked = addressLooks(targets, places);
  const wanted = asked.filter((one) => one !== undefined);
  const found = wanted.length === 0 ? [] : await look('addresses', wanted);
  const values = typeof found === 'string' || Array.isArray(found) ? [] : [...found.values];
  const addresses = asked.map((one) => (one === undefined ? undefined : (values.shift()?.value as string | undefined)));
  const last = await look('contents', contentLooks(targets, first.url, addresses, places));
  return typeof last === 'string' ? { ...none, url: first.url } : { url: first.url, values: last.values };
}

const called = (name: string, given: Readonly<Record<string, string>>): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name, arguments: given }],
});

/**
 * What solves a record that asks for an answer or an address. A record that asks for a state of pages has no solution.
 */
function oracleOf({ eval: { eval_types: types, reference_answers: given, reference_url: url } }: WebArenaRecord) {
  if (types.includes('program_html')) return undefined;
  const { exact_match: exact, must_include: included = [], fuzzy_match: fuzzy = [] } = given ?? {};
  const answer = exact ?? [...included, ...[fuzzy].flat()].join(', ');
  const [address = ''] = (url ?? '').split(' |OR| ');
  return [
    ...(types.includes('url_match') ? [called('browser', { action: 'navigate', url: address })] : []),
    called('finish', types.includes('string_match') ? { answer } : {}),
  ];
}

function taskOf(record: WebArenaRecord, options: WebArenaOptions, machine: SandboxRequest): Task {
  const { judge } = options;
  const places: Places = { sites: options.sites, shoppingAdmin: options.shoppingAdmin };
  const oracle = oracleOf(record);
  const starts = record.start_url.split(' |AND| ');
  // A locator that is not known is said when the task is loaded, not when its work is graded.
  contentLooks(record.eval.program_html ?? [], '', [], places);
  const content =
    `${record.intent}\n\nThe browser shows ${starts.join(' and ')}. When you are done, call finish with the ` +
    'answer; if there is nothing to answer, leave it empty; if the task cannot be done, answer N/A and say why.';
  return {
    family: record.sites.join('+'),
    messages: [{ role: 'user', content }],
    tools: ['browser', 'finish'],
    sandboxes: { main: machine },
    resources: { toolSeconds: 120 },
    gradedIn: 'none',
    async start(ctx) {
      const [first = '', ...others] = starts;
      const sandbox = await ctx.sandbox();
      const opens = [first, ...others].map((url): LookTarget => ({ url, expression: 'location.href' }));
      const shown = await lookInBrowser(opens, { sandbox, callId: `${ctx.id}/open`, timeoutMs: START_MS });
      const failed = typeof shown === 'string' ? shown : shown.values.find((one) => one.failed !== undefined)?.failed;
      if (failed !== undefined) throw new Error(`the task's first page cannot be opened: ${failed}`);
      return { state: {} };
    },
    collect: async (ctx) => Buffer.from(JSON.stringify(await stateOf(record, ctx, places))),
    ...(oracle && { oracle: async () => await Promise.resolve(oracle) }),
    async grade(ctx, { answer, artifact }) {
      const state =
        artifact.length === 0 ? undefined : (JSON.parse(Buffer.from(artifact).toString('utf8')) as PageState);
      return await gradeWebArena(record, answer, state, ctx.ask, judge);
    },
  };
}

export const webArena: Environment<WebArenaOptions> = {
  name: 'webarena',
  options: webArenaOptions,

  async open(options, io): Promise<Dataset> {
    const { sandbox, data, ...others } = options;
    const given = sandbox.folder === undefined ? [] : filesIn(io.path('sandbox.folder', sandbox.folder));
    const machine: SandboxRequest = {
      workdir: WORKDIR,
      files: given.map(({ path: name, content, mode }) => ({ path: name, content, mode: mode | 0o600 })),
      env: {},
      limits: { memoryMiB: sandbox.memoryMiB, diskMiB: sandbox.diskMiB, processes: 512 },
      cpus: sandbox.cpus,
      ...(sandbox.setup !== undefined && { setup: sandbox.setup }),
      ...(sandbox.image !== undefined && { image: sandbox.image }),
    };
    const left = new Map<string, number>();
    const splits: Record<string, Records<WebArenaRecord>> = {};
    for (const [split, files] of Object.entries(data)) {
      const read = await Promise.all(
        [files].flat().map(async (file) => await readRecords(io.path(`data.${split}`, file), webArenaRecord)),
      );
      const rows = read
        .flatMap((one) => [...one.rows])
        .map((record) => withSites(record, options.sites))
        .filter((record) => {
          const why = whyLeftOut(record, options);
          if (why !== undefined) left.set(why, (left.get(why) ?? 0) + 1);
          return why === undefined;
        });
      splits[split] = { digest: read.map(({ digest }) => digest).join(' '), rows };
    }
    const dataset = recordsDataset(
      splits,
      (record) => taskOf(record, options, machine),
      ({ task_id: id }) => `task ${id}`,
    );
    const digest = createHash('sha256').update(
      JSON.stringify([dataset.digest, digestOf(given), others, sandbox.setup ?? '']),
    );
    return {
      ...dataset,
      digest: digest.digest('hex'),
      notes: [...left].map(([why, count]) => `${count} records are left out: ${why}`),
    };
  },
};
