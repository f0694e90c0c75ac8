/** Pages that a policy may not read, such as those with a benchmark's answers. */

export interface BlockList {
  /** Domains, with those below them. */
  readonly blockedDomains: readonly string[];
  /** In any case. */
  readonly blockedWords: readonly string[];
}

const plain = (domain: string): string =>
  domain
    .toLowerCase()
    .replace(/^[a-z]+:\/\//, '')
    .replace(/^www\./, '')
    .replace(/\/.*$/, '')
    .replace(/\.$/, '');

/** True if the page is of a blocked domain, or one of the texts has a blocked word. */
export function isBlocked(url: string, texts: readonly string[], { blockedDomains, blockedWords }: BlockList): boolean {
  const host = plain(URL.parse(url)?.hostname ?? url);
  const isOf = (domain: string) => host === domain || host.endsWith(`.${domain}`);
  if (blockedDomains.some((domain) => isOf(plain(domain)))) return true;
  if (blockedWords.length === 0) return false;
  const whole = texts.join('\n').toLowerCase();
  return blockedWords.some((word) => whole.includes(word.toLowerCase()));
}
