/** What the inputs of workflows may name here: addresses and names of variables, never a value. */

import { addressText, ENDPOINTS_VARIABLE, KEYS_VARIABLE, keyText } from '../../endpoints/allowed-addresses.ts';
import { readAllowedAddresses } from '../../workers/settings.ts';
import { type Finding, finding } from './finding.ts';

const KEYS = 'keys of endpoints';

export function examineAllowed(env: NodeJS.ProcessEnv): Finding[] {
  try {
    const { keys, endpoints } = readAllowedAddresses(env);
    const listed = keys.map((key) => `${keyText(key)}${env[key.name] ? '' : ' (not set here)'}`);
    const asked = endpoints?.map(addressText) ?? [`any but link-local ones; ${ENDPOINTS_VARIABLE} names the only ones`];
    return [
      finding(KEYS, true, listed.join(', ') || `none; ${KEYS_VARIABLE}=NAME@https://host/v1 allows one`, ''),
      finding('addresses of endpoints', true, asked.join(', '), ''),
    ];
  } catch (error) {
    return [finding(KEYS, true, undefined, error instanceof Error ? error.message : String(error))];
  }
}
