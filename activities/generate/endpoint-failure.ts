/** Maps an endpoint's error to the failure that the workflow sees: what a user must change is named by its setting. */

import type { Endpoint } from '../../protocol/endpoint.ts';
import type { EndpointError } from '../../endpoints/endpoint-error.ts';
import { EndpointUnavailable } from '../failures.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** `field` is the endpoint's path in the input. */
export function endpointFailure(error: EndpointError, endpoint: Endpoint, field = 'policy.endpoint'): Error {
  const { baseUrl, model, mode, apiKeyEnv = null } = endpoint;
  const said = `${baseUrl}: ${error.message}`;
  const restart = (setting: string) => `npx longhaul down, then ${setting} npx longhaul up --detach`;
  switch (error.kind) {
    case 'key-not-allowed':
      return new UserInputError(
        `${field}.apiKeyEnv`,
        apiKeyEnv,
        "start the workers with the key's name and address: " +
          `${restart(`LONGHAUL_KEYS=${apiKeyEnv}@${baseUrl}`)} (${error.message})`,
      );
    case 'address-not-allowed':
      return new UserInputError(
        `${field}.baseUrl`,
        baseUrl,
        'give an address that the workers may use, or start them with this one: ' +
          `${restart(`LONGHAUL_ENDPOINTS=${baseUrl}`)} (${error.message})`,
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
        `the key's account has no credit left, or is at its limit: add credit or raise the limit (${said})`,
      );
    case 'unknown-model':
      return new UserInputError(`${field}.model`, model, `give a model that ${baseUrl}/models lists (${said})`);
    case 'protocol':
    case 'retokenised':
      return new UserInputError(
        `${field}.mode`,
        mode,
        `give chat, or use a server that returns token ids and a tokenizer that agrees with it (${said})`,
      );
    case 'bad-request':
    case 'unreadable':
    case 'context':
      return new UserInputError(field, baseUrl, `change the setting that the server refuses (${said})`);
    default:
      return new EndpointUnavailable(said, error.retryAfterMs);
  }
}
