/**
 * Addresses that are never allowed as endpoints: link-local ones, and the metadata services at which clouds provide a
 * machine's credentials. For a name, the addresses that it resolves to are checked, for each connection.
 */

import { lookup as resolve, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { EndpointError } from './endpoint-error.ts';

const never = new BlockList();
for (const [net, prefix] of [
  ['0.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 3],
] as const)
  never.addSubnet(net, prefix, 'ipv4');
for (const [net, prefix] of [
  ['fe80::', 10],
  ['ff00::', 8],
] as const)
  never.addSubnet(net, prefix, 'ipv6');
// Metadata services of Alibaba, Azure and Oracle.
const metadata = ['100.100.100.200', '168.63.129.16', '192.0.0.192'];
for (const address of metadata) never.addAddress(address, 'ipv4');
// The last three are metadata services of Amazon, Google and Scaleway.
for (const address of ['::', 'fd00:ec2::254', 'fd20:ce::254', 'fd00:42::42']) never.addAddress(address, 'ipv6');
// IPv4 addresses that translators extract from IPv6 ones. `BlockList` itself only handles `::ffff:0:0/96`.
for (const translated of ['::', '64:ff9b::', '::ffff:0:']) {
  never.addSubnet(`${translated}169.254.0.0`, 112, 'ipv6');
  for (const address of metadata) never.addAddress(`${translated}${address}`, 'ipv6');
}
// 6to4 has the IPv4 address after its first two bytes (RFC 3056).
never.addSubnet('2002:a9fe::', 32, 'ipv6');
for (const address of metadata) never.addSubnet(sixToFour(address), 48, 'ipv6');
/** Translators may use any prefix in this range (RFC 8215), with the IPv4 address in the last four bytes. */
const translators = new BlockList();
translators.addSubnet('64:ff9b:1::', 48, 'ipv6');

function sixToFour(address: string): string {
  const hex = Buffer.from(address.split('.').map(Number)).toString('hex');
  return `2002:${hex.slice(0, 4)}:${hex.slice(4)}::`;
}

/** In the range of translators: the IPv4-compatible address of the last four bytes. Otherwise the address itself. */
function untranslated(address: string): string {
  if (!translators.check(address, 'ipv6')) return address;
  return `::${address
    .split(':')
    .slice(-2)
    .map((group) => group || '0')
    .join(':')}`;
}

const refused = (host: string, address: string): EndpointError =>
  new EndpointError(
    'address-not-allowed',
    `${host}${address === host ? '' : ` resolves to ${address}, which`} is a link-local address or a metadata ` +
      'service; these are never allowed',
  );

/** Checks an address. An IPv4 address inside an IPv6 one is checked as IPv4. Errors: `EndpointError`. */
function check(host: string, address: string): void {
  const family = isIP(address);
  const isNever =
    family === 6 ? never.check(untranslated(address), 'ipv6') : family === 4 && never.check(address, 'ipv4');
  if (isNever) throw refused(host, address);
}

/** Checks a host that is an address; `guardedLookup` checks names. Errors: `EndpointError`. */
export function checkHost({ hostname }: URL): void {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  check(host, host);
}

/** As `dns.lookup`, but fails for a name with a forbidden address. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  resolve(hostname, { ...options, all: true }, (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => {
    try {
      if (error) throw error;
      for (const { address } of addresses) check(hostname, address);
    } catch (reason) {
      callback(reason as NodeJS.ErrnoException, '', 0);
      return;
    }
    const [first] = addresses;
    if (options.all) callback(null, addresses);
    else callback(null, first?.address ?? '', first?.family ?? 0);
  });
};
