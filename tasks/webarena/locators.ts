/**
 * What is looked at on a page, as an expression for the browser. A record's `func:` names a helper of WebArena's, of
 * which these are known; nothing of a record is run anywhere but in the page.
 */

import { UserInputError } from '../../protocol/user-input-error.ts';
import type { LookTarget } from '../../agents/tools/browser/run-server.ts';
import type { Sites, Target, WebArenaRecord } from './record.ts';

/** The shop's administrator, whom its own helpers ask. */
export interface Account {
  readonly username: string;
  readonly password: string;
}

export interface Places {
  readonly sites: Sites;
  readonly shoppingAdmin?: Account | undefined;
}

/** After a page is opened for a look, so that its scripts have drawn it. Upstream waits three. */
const PAUSE_S = 1;
const CALL = /^func:\s*(\w+)\(([^]*)\)\s*$/u;

interface Called {
  readonly name: string;
  readonly args: readonly string[];
}

/** A helper's name and its texts. Errors: `UserInputError` for anything else. */
function called(text: string, field: string): Called {
  const [, name = '', given = ''] = CALL.exec(text) ?? [];
  const args = [...given.matchAll(/'([^'\\]*)'|"([^"\\]*)"|(__page__)/gu)].map(
    ([, one, two, three]) => one ?? two ?? three ?? '',
  );
  const isPlain = given.replaceAll(/'[^'\\]*'|"[^"\\]*"|__page__/gu, '').replaceAll(/[\s,]/gu, '') === '';
  const wanted = {
    shopping_get_latest_order_url: 0,
    reddit_get_post_url: 1,
    gitlab_get_project_memeber_role: 2,
    shopping_get_sku_latest_review_author: 1,
    shopping_get_sku_latest_review_rating: 1,
  }[name];
  if (wanted !== undefined && isPlain && args.length === wanted) return { name, args };
  throw new UserInputError(
    field,
    text,
    'its helper is not known: use a locator of the page (document.…), or leave the record out',
  );
}

/** The address of a post, from an address below it. */
export function postUrl(url: string): string {
  const [, scheme = '', host = '', path = ''] = /^([a-z]+):\/\/([^/?#]*)([^?#;]*)/iu.exec(url) ?? [];
  const parts = path.split('/');
  return parts.length < 4 || parts[1] !== 'f' ? url : `${scheme}://${host}/f/${parts[2] ?? ''}/${parts[3] ?? ''}/`;
}

const js = (value: unknown): string =>
  JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');

function memberRole(account: string): string {
  return `(() => {
    const names = [...document.querySelectorAll("td[data-label='Account'] span.gl-avatar-labeled-sublabel")];
    const at = names.findIndex((each) => each.outerText === ${js(`@${account}`)});
    const roles = document.querySelectorAll('td.col-max-role span');
    return roles[at] ? roles[at].outerText : '';
  })()`;
}

/** An answer of the shop's own API, asked as its administrator from one of its pages. */
function shopAsked(path: string, account: Account, of: string): string {
  return `(async () => {
    const to = (path, more) => fetch(path, { ...more, headers: { 'content-type': 'application/json', ...more.headers } });
    const told = await to('/rest/default/V1/integration/admin/token', { method: 'POST', body: ${js(JSON.stringify(account))} });
    const answer = await to(${js(path)}, { headers: { authorization: 'Bearer ' + (await told.json()) } });
    return ((found) => ${of})(await answer.json());
  })()`;
}

const reviewsOf = (sku: string): string => `/rest/V1/products/${encodeURIComponent(sku)}/reviews`;
const LATEST_ORDER =
  '/rest/V1/orders?searchCriteria%5BsortOrders%5D%5B0%5D%5Bfield%5D=created_at&searchCriteria%5BsortOrders%5D%5B0%5D%5Bdirection%5D=DESC&searchCriteria%5BpageSize%5D=1';

/** True if a record needs the shop's administrator. */
export const needsShoppingAdmin = ({ eval: { program_html: targets } }: WebArenaRecord): boolean =>
  (targets ?? []).some(({ url, locator }) => /^func:\s*shopping_/u.test(url) || /^func:\s*shopping_/u.test(locator));

function accountOf({ shoppingAdmin }: Places): Account {
  if (shoppingAdmin !== undefined) return shoppingAdmin;
  throw new UserInputError('shoppingAdmin', undefined, "give the shop's administrator: { username, password }");
}

/** The first look: addresses that must be known before pages are opened. Absent: the record has none. */
export function addressLooks(targets: readonly Target[], places: Places): Array<LookTarget | undefined> {
  return targets.map(({ url }) => {
    if (!url.startsWith('func') || called(url, 'program_html.url').name !== 'shopping_get_latest_order_url')
      return undefined;
    return {
      url: places.sites.shopping ?? '',
      expression: shopAsked(LATEST_ORDER, accountOf(places), `String(parseInt(found.items[0].increment_id, 10))`),
    };
  });
}

/** The address of a target; `undefined`: the page that is open. `found`: what `addressLooks` brought. */
function addressOf({ url }: Target, last: string, found: string | undefined, { sites }: Places): string | undefined {
  if (url === 'last') return undefined;
  if (!url.startsWith('func')) return url;
  const { name, args } = called(url, 'program_html.url');
  if (name === 'reddit_get_post_url') return postUrl((args[0] ?? '').replaceAll('__last_url__', last));
  return `${(sites.shopping ?? '').replace(/\/+$/u, '')}/sales/order/view/order_id/${found ?? '0'}/`;
}

/** The expression of a locator. Errors: `UserInputError` for one that is not known. */
export function expressionOf(locator: string, places: Places): string {
  if (locator.trim() === '')
    return (
      '(document.doctype ? new XMLSerializer().serializeToString(document.doctype) : ' +
      "'') + document.documentElement.outerHTML"
    );
  if (locator.startsWith('document.') || locator.startsWith('[...document.')) return locator;
  if (!locator.startsWith('func:'))
    throw new UserInputError('program_html.locator', locator, 'it must be empty, or start with document. or func:');
  const { name, args } = called(locator, 'program_html.locator');
  if (name === 'gitlab_get_project_memeber_role') return memberRole(args[1] ?? '');
  const part =
    name === 'shopping_get_sku_latest_review_author'
      ? 'found.at(-1).nickname'
      : 'String(found.at(-1).ratings[0].percent)';
  return shopAsked(reviewsOf(args[0] ?? ''), accountOf(places), `found.length === 0 ? '' : ${part}`);
}

/** The second look: one for each target. A page of the shop is opened for what only its API says. */
export function contentLooks(
  targets: readonly Target[],
  last: string,
  addresses: ReadonlyArray<string | undefined>,
  places: Places,
): LookTarget[] {
  return targets.map((target, at) => {
    const url = addressOf(target, last, addresses[at], places);
    const steps = target.prep_actions;
    return {
      ...(url !== undefined && { url, pause: PAUSE_S }),
      steps,
      expression: expressionOf(target.locator, places),
    };
  });
}
