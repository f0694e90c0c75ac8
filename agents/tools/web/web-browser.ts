/**
 * `web_browser`: reads a page of the public web, and returns what helps with the goal: by a judge of the configuration,
 * or, without one, the passages that fit the goal best. The policy reaches no address of this machine or its network.
 */

import { z } from 'zod';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { isBlocked } from '../../web/block-list.ts';
import { keyNotListed } from '../../web/operator-lists.ts';
import { cacheFolder, PageCache } from '../../web/page-cache.ts';
import { excerptsOf, summaryOf } from '../../web/page-summary.ts';
import { type Page, PageRefused, pageUrl, readPage } from '../../web/read-page.ts';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool, type WorkerServices } from '../tool.ts';

const words = z.array(z.string().min(1)).max(1000).default([]);

const options = z.strictObject({
  /** `direct`: this worker fetches pages. `jina`: Jina's reader does. */
  reader: z.enum(['direct', 'jina']).default('direct'),
  readerUrl: z.url({ protocol: /^https?$/ }).default('https://r.jina.ai'),
  /** Variable with the reader's key. Absent: it is asked without a key. */
  keyEnv: z
    .string()
    .regex(/^[A-Za-z_]\w{0,63}$/, 'give the name of a variable, never a key')
    .optional(),
  /** Judge that reads the page for the policy. Absent: the passages that fit the goal best are shown. */
  judge: z.string().min(1).optional(),
  timeoutSeconds: z.number().min(1).max(120).default(20),
  blockedDomains: words,
  blockedWords: words,
  /** `HOST:PORT` entries of servers that need not be on the public internet. For tests. */
  allowPrivate: z.array(z.string().min(3)).max(100).default([]),
  /** Pages that are kept for all rollouts on this machine; 0: none. */
  cachePages: z.int().min(0).max(1_000_000).default(10_000),
  cacheHours: z
    .number()
    .positive()
    .default(24 * 7),
});

type Options = z.output<typeof options>;

const MOST_URLS = 5;

/** Time that is left to answer after the page was read. */
const SPARE_MS = 2000;

async function pageOf(url: URL, given: Options, { signal, deadline }: WorkerServices): Promise<Page> {
  const cache = new PageCache(cacheFolder(), { pages: given.cachePages, hours: given.cacheHours });
  const name = JSON.stringify([given.reader, given.readerUrl, given.allowPrivate]);
  const known = given.cachePages > 0 ? await cache.get(name, url) : undefined;
  if (known !== undefined) return known;
  const left = (deadline - Date.now() - SPARE_MS) / 1000;
  const page = await readPage(
    url,
    { ...given, timeoutSeconds: Math.max(1, Math.min(given.timeoutSeconds, left)) },
    signal,
  );
  await cache.put(name, url, page);
  return page;
}

async function read(text: string, goal: string, given: Options, services: WorkerServices): Promise<string> {
  try {
    const url = pageUrl(text);
    if (isBlocked(url.href, [url.href], given)) throw new PageRefused('it is blocked');
    const page = await pageOf(url, given, services);
    // After redirects it may be another one.
    if (isBlocked(page.url, [page.url, page.title, page.text], given)) throw new PageRefused('it is blocked');
    if (page.text.trim() === '') throw new PageRefused('it has no text');
    const { judge } = given;
    const shown =
      judge === undefined
        ? excerptsOf(page.text, goal)
        : await summaryOf(page, goal, (question) => services.ask(question, { judge }));
    return `${page.title === '' ? '' : `Title: ${page.title}\n`}URL: ${page.url}\n${shown}`;
  } catch (error) {
    if (error instanceof PageRefused) return `Error: ${text.slice(0, 300)}: ${error.message}.`;
    throw error;
  }
}

/** One address, or a list of them, which some policies write as a text. */
function urlsIn(given: unknown): readonly string[] {
  const areTexts = (value: unknown): value is readonly string[] =>
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MOST_URLS &&
    value.every((one) => typeof one === 'string');
  if (areTexts(given)) return given;
  const text = String(given).trim();
  try {
    const parsed: unknown = text.startsWith('[') ? JSON.parse(text) : undefined;
    return areTexts(parsed) ? parsed : [text];
  } catch {
    return [text];
  }
}

export const webBrowser = makeTool({
  name: 'web_browser',
  description: 'Reads web pages, and returns what helps with the goal.',
  parameters: {
    type: 'object',
    properties: {
      url: {
        anyOf: [
          { type: 'string', minLength: 1, maxLength: 4000 },
          { type: 'array', items: { type: 'string', minLength: 1, maxLength: 4000 }, minItems: 1, maxItems: MOST_URLS },
        ],
        description: 'The address of a page, or of several.',
      },
      goal: { type: 'string', minLength: 1, maxLength: 4000, description: 'What to find out on the page.' },
    },
    required: ['url', 'goal'],
    additionalProperties: false,
  },
  options,
  runs: 'worker',
  effect: 'none',

  check({ reader, readerUrl, keyEnv }, field) {
    if (reader === 'direct' && keyEnv !== undefined)
      throw new UserInputError(`${field}.keyEnv`, keyEnv, 'leave it out, or give reader: jina');
    const wrong = keyEnv === undefined ? undefined : keyNotListed(keyEnv, new URL(readerUrl));
    if (wrong !== undefined) throw new UserInputError(`${field}.keyEnv`, keyEnv, wrong);
  },

  async run(args, context) {
    const { options: given, maxCharacters = DEFAULT_MAX_CHARACTERS } = context;
    const urls = urlsIn(args.value('url'));
    const most = Math.floor(maxCharacters / Math.max(1, urls.length));
    const shown = await Promise.all(urls.map((url) => read(url, args.text('goal'), given, context)));
    return shown.map((one) => truncateMiddle(one, most)).join('\n=======\n');
  },
});
