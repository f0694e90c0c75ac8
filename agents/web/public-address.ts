/**
 * Which addresses a policy may make a worker connect to: public ones. Names are resolved once, each of their addresses
 * is checked, and the connection goes to a checked one, so that a name cannot change its address in between.
 */

import { lookup as resolve, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/** An address that the policy may not have read. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

const closed = new BlockList();
/** Special addresses of IPv4 (RFC 6890 and its updates), and the metadata service of Azure. */
for (const [net, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const)
  closed.addSubnet(net, prefix, 'ipv4');
/** Of IPv6, what is not in this range is not public; of it, these tunnel, document or are reserved. */
const unicast = new BlockList();
unicast.addSubnet('2000::', 3, 'ipv6');
for (const [net, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const)
  closed.addSubnet(net, prefix, 'ipv6');

export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !closed.check(address, 'ipv4');
  return family === 6 && unicast.check(address, 'ipv6') && !closed.check(address, 'ipv6');
}

const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, '$1');
const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80');

/** `HOST:PORT` of a URL, as `allowPrivate` lists them. */
export const hostAndPort = (url: URL): string => `${hostOf(url)}:${portOf(url)}`;

/** Other ports belong to other protocols, which must not read what a policy wrote. */
const PORTS = ['80', '443', '8080', '8443'];

/** As `dns.lookup`. Fails with `AddressRefused` for a name of which any address is not public. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  resolve(hostname, { ...options, all: true }, (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => {
    const wrong = error ? undefined : found.find(({ address }) => !isPublicAddress(address));
    const [first] = found ?? [];
    if (error) callback(error, '', 0);
    else if (wrong !== undefined || first === undefined)
      callback(new AddressRefused(`${hostname} is not on the public internet`), '', 0);
    else if (options.all) callback(null, found);
    else callback(null, first.address, first.family);
  });
};

/**
 * The look-up for one request. `allowPrivate`: `HOST:PORT` entries that need not be public. Errors: `AddressRefused`
 * for a URL that may not be read.
 */
export function lookupFor(url: URL, allowPrivate: readonly string[]): LookupFunction {
  if (!/^https?:$/.test(url.protocol)) throw new AddressRefused(`${url.protocol} cannot be read: give http or https`);
  if (url.username !== '' || url.password !== '') throw new AddressRefused('give a URL without user and password');
  if (allowPrivate.includes(hostAndPort(url))) return resolve as unknown as LookupFunction;
  if (!PORTS.includes(portOf(url)))
    throw new AddressRefused(`port ${portOf(url)} cannot be read: use one of ${PORTS.join(', ')}`);
  const host = hostOf(url);
  // Addresses are not looked up.
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw new AddressRefused(`${host} is not on the public internet`);
  return publicLookup;
}
