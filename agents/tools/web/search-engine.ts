/**
 * `search_engine`: searches the web by Serper or You.com. Results of blocked domains, or with blocked words, are left
 * out. Without a key, or with a server that is down, the call is a failure, never an observation.
 */

import { z } from 'zod';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { isBlocked } from '../../web/block-list.ts';
import { keyNotListed } from '../../web/operator-lists.ts';
import { PROVIDERS, searchWeb, type WebResult } from '../../web/search-providers.ts';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';

const words = z.array(z.string().min(1)).max(1000).default([]);

const options = z.strictObject({
  provider: z.enum(['serper', 'youcom']).default('serper'),
  /** In place of the provider's own address. */
  url: z.url({ protocol: /^https?$/ }).optional(),
  /** Variable with the key. Default: `GOOGLE_SEARCH_KEY` for Serper, `YOUCOM_API_KEY` for You.com. */
  keyEnv: z
    .string()
    .regex(/^[A-Za-z_]\w{0,63}$/, 'give the name of a variable, never a key')
    .optional(),
  /** Results of a query. */
  count: z.int().min(1).max(20).default(10),
  timeoutSeconds: z.number().min(1).max(120).default(10),
  /** Domains, with those below them, that no result may be of. */
  blockedDomains: words,
  /** Words that no result may have, in any case. */
  blockedWords: words,
});

type Options = z.output<typeof options>;

/** Search engines leave the first domains out themselves; the rest is removed here. */
const MOST_EXCLUDED = 10;

const asked = (query: string, { blockedDomains }: Options): string =>
  [query, ...blockedDomains.slice(0, MOST_EXCLUDED).map((domain) => `-site:${domain}`)].join(' ');

function shown(query: string, results: readonly WebResult[]): string {
  const list = results.map(({ title, url, snippet }, i) => `${i + 1}. ${title}\n   ${url}\n   ${snippet}`);
  return `Results for ${JSON.stringify(query)}:\n${list.length === 0 ? 'No search results found.' : list.join('\n')}`;
}

export const searchEngine = makeTool({
  name: 'search_engine',
  description: 'Searches the web. Returns title, address and an excerpt of the best results of each query.',
  parameters: {
    type: 'object',
    properties: {
      query: {
        type: 'array',
        items: { type: 'string', minLength: 1, maxLength: 500 },
        minItems: 1,
        maxItems: 5,
        description: 'One query or several.',
      },
    },
    required: ['query'],
    additionalProperties: false,
  },
  options,
  runs: 'worker',
  effect: 'none',

  check({ provider: name, url, keyEnv = PROVIDERS[name].keyEnv }, field) {
    const wrong = keyNotListed(keyEnv, new URL(url ?? PROVIDERS[name].url));
    if (wrong !== undefined) throw new UserInputError(`${field}.keyEnv`, keyEnv, wrong);
  },

  async run(args, { options: given, signal, deadline, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const queries = args.texts('query') ?? [];
    const found = await Promise.all(
      queries.map(async (query) => {
        const results = await searchWeb({ ...given, provider: given.provider }, asked(query, given), {
          signal,
          deadline,
        });
        return shown(
          query,
          results.filter((one) => !isBlocked(one.url, [one.title, one.snippet, one.url], given)),
        );
      }),
    );
    return truncateMiddle(found.join('\n=======\n'), maxCharacters);
  },
});
