/** From an endpoint's error to the failure that the workflow sees: what a user must change is told by its setting. */

import type { Endpoint } from '../../protocol/endpoint.ts';
import type { EndpointError } from '../../endpoints/endpoint-error.ts';
import { EndpointUnavailable } from '../failures.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** `field` is where the endpoint stands in what was given. */
export function endpointFailure(error: EndpointError, endpoint: Endpoint, field = 'policy.endpoint'): Error {
  const { baseUrl, model, mode, apiKeyEnv = null } = endpoint;
  const said = `${baseUrl} says: ${error.message}`;
  const restart = (setting: string) => `npx longhaul down, then ${setting} npx longhaul up --detach`;
  switch (error.kind) {
    case 'key-not-allowed':
      return new UserInputError(
        `${field}.apiKeyEnv`,
        apiKeyEnv,
        `have the workers started with the key's name and address: ${restart(`LONGHAUL_KEYS=${apiKeyEnv}@${baseUrl}`)} (${error.message})`,
      );
    case 'address-not-allowed':
      return new UserInputError(
        `${field}.baseUrl`,
        baseUrl,
        `give an address that the workers may ask, or have them started with it: ${restart(`LONGHAUL_ENDPOINTS=${baseUrl}`)} (${error.message})`,
      );
    case 'auth':
      return new UserInputError(
        `${field}.apiKeyEnv`,
        apiKeyEnv,
        `name a variable that holds a valid key where the gpu worker runs (${said})`,
      );
    case 'quota':
      return new UserInputError(
        `${field}.apiKeyEnv`,
        apiKeyEnv,
        `its account can pay for no more: add credit or raise its limit (${said})`,
      );
    case 'unknown-model':
      return new UserInputError(`${field}.model`, model, `name one that ${baseUrl}/models lists (${said})`);
    case 'protocol':
    case 'retokenised':
      return new UserInputError(
        `${field}.mode`,
        mode,
        `give chat, or a server and a tokenizer that agree on ids (${said})`,
      );
    case 'bad-request':
    case 'unreadable':
    case 'context-full':
      return new UserInputError(field, baseUrl, `change what the server refuses (${said})`);
    default:
      return new EndpointUnavailable(said, error.retryAfterMs);
  }
}
