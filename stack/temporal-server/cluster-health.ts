/** Checks that a cluster serves a namespace, and that it knows our search attributes. */

import { Connection, type ConnectionOptions } from '@temporalio/client';
import { SEARCH_ATTRIBUTES } from './search-attributes.ts';

/** `IndexedValueType` of Temporal's API, temporal/api/enums/v1/common.proto. */
const TYPES = { Keyword: 2, Int: 3, Double: 4 } as const;

/** Returns the server's version if the namespace answers. Errors: the connection's, after at most `timeoutMs`. */
export async function checkCluster(options: ConnectionOptions, namespace: string, timeoutMs: number): Promise<string> {
  return withConnection(options, timeoutMs, async ({ workflowService }) => {
    await workflowService.describeNamespace({ namespace });
    return (await workflowService.getSystemInfo({})).serverVersion;
  });
}

/** The id that the server created with its database. Errors: the connection's, after at most `timeoutMs`. */
export async function clusterId(options: ConnectionOptions, timeoutMs: number): Promise<string> {
  return withConnection(
    options,
    timeoutMs,
    async ({ workflowService }) => (await workflowService.getClusterInfo({})).clusterId,
  );
}

/** The part of a cluster's operator service that is used here. */
export interface SearchAttributeService {
  listSearchAttributes(request: { namespace: string }): Promise<{ customAttributes?: Record<string, unknown> | null }>;
  addSearchAttributes(request: { namespace: string; searchAttributes: Record<string, number> }): Promise<unknown>;
}

/** The namespace lacks search attributes, and the cluster did not register them. */
export class SearchAttributesRefused extends Error {
  override readonly name = 'SearchAttributesRefused';
  readonly lacking: readonly string[];

  constructor(lacking: readonly string[], options?: ErrorOptions) {
    super(`search attributes are missing and could not be registered: ${lacking.join(', ')}`, options);
    this.lacking = lacking;
  }
}

async function lackingOn(service: SearchAttributeService, namespace: string) {
  const { customAttributes } = await service.listSearchAttributes({ namespace });
  const known = new Set(Object.keys(customAttributes ?? {}));
  return Object.entries(SEARCH_ATTRIBUTES).filter(([name]) => !known.has(name));
}

/** Like `registerSearchAttributes`, on an operator service. */
export async function registerOn(service: SearchAttributeService, namespace: string): Promise<string[]> {
  const lacking = await lackingOn(service, namespace);
  if (lacking.length === 0) return [];
  const searchAttributes = Object.fromEntries(lacking.map(([name, type]) => [name, TYPES[type]]));
  try {
    await service.addSearchAttributes({ namespace, searchAttributes });
  } catch (error) {
    // Another process may have registered them meanwhile: only those still missing count.
    const still = await lackingOn(service, namespace);
    if (still.length > 0)
      throw new SearchAttributesRefused(
        still.map(([name]) => name),
        { cause: error },
      );
  }
  return lacking.map(([name]) => name);
}

/**
 * Registers the search attributes that the namespace lacks. Returns their names.
 * Errors: `SearchAttributesRefused` if they cannot be registered; the connection's own if they cannot be listed.
 */
export async function registerSearchAttributes(options: ConnectionOptions, namespace: string): Promise<string[]> {
  return withConnection(options, 10_000, ({ operatorService }) => registerOn(operatorService, namespace));
}

async function withConnection<T>(
  options: ConnectionOptions,
  timeoutMs: number,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await Connection.connect({ ...options, connectTimeout: timeoutMs });
  try {
    return await connection.withDeadline(Date.now() + timeoutMs, () => work(connection));
  } finally {
    await connection.close();
  }
}
