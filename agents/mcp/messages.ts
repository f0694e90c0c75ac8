/** Messages of the Model Context Protocol, which are the same over stdio and over HTTP: JSON-RPC 2.0. */

import { isObject } from '../../protocol/message.ts';
import { isDeep } from '../tools/schema/arguments.ts';
import { normalizeOutput } from '../tools/observation.ts';
import type { McpTool } from './server.ts';

/** The revision that is asked for. A server answers with the one that it speaks: what is used here is equal in all. */
const REVISION = '2025-06-18';
const NOT_FOUND = -32_601;

export type Json = Readonly<Record<string, unknown>>;

export const line = (message: Json): string => JSON.stringify({ jsonrpc: '2.0', ...message });
export const INITIALIZED = line({ method: 'notifications/initialized' });
/** Parameters of `initialize`. */
export const INTRODUCTION = {
  protocolVersion: REVISION,
  capabilities: {},
  clientInfo: { name: 'longhaul', version: '1' },
} as const;

/** The answer to a request of the server's own. The client has declared no capabilities, so only `ping` is expected. */
export function reply({ id, method }: Json): string {
  if (method === 'ping') return line({ id, result: {} });
  return line({ id, error: { code: NOT_FOUND, message: `the client has no ${String(method)}` } });
}

export const isRequest = ({ id, method }: Json): boolean =>
  (typeof id === 'string' || typeof id === 'number') && typeof method === 'string';

/** The messages of a text: one, or (in one revision) a list of them. `undefined`: it has something else. */
export function messagesIn(text: string): Json[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const messages: unknown[] = Array.isArray(value) ? value : [value];
  return messages.every((message): message is Json => isObject(message)) ? messages : undefined;
}

export type Outcome =
  | { readonly kind: 'result'; readonly result: Json }
  | { readonly kind: 'error'; readonly message: string };

/** What an answer says. `undefined`: nothing that the protocol has, or values that are nested too deep to be read. */
export function outcomeOf(answer: Json): Outcome | undefined {
  if (isDeep(answer)) return undefined;
  const { result, error } = answer;
  if (isObject(error)) {
    const { message } = error as Json;
    return { kind: 'error', message: typeof message === 'string' ? message : JSON.stringify(error) };
  }
  return isObject(result) ? { kind: 'result', result: result as Json } : undefined;
}

/** A tool of a list. `failed` makes the error for something else. */
export function toolOf(listed: unknown, failed: (what: string) => Error): McpTool {
  const { name, description, inputSchema, annotations } = (isObject(listed) ? listed : {}) as Json;
  if (typeof name !== 'string' || !isObject(inputSchema))
    throw failed(`listed a tool without name or inputSchema: ${JSON.stringify(listed).slice(0, 100)}`);
  return {
    name,
    description: typeof description === 'string' ? description : '',
    inputSchema: inputSchema as Json,
    readOnly: isObject(annotations) && (annotations as Json)['readOnlyHint'] === true,
  };
}

/** A part of a result as text. Images and sounds are named, not shown. */
function partText(part: unknown): string {
  const { type, text, mimeType, uri, resource, data } = (isObject(part) ? part : {}) as Json;
  if (type === 'text') return String(text);
  if (type === 'resource') {
    const { text: inner, uri: place } = (isObject(resource) ? resource : {}) as Json;
    return typeof inner === 'string' ? inner : `[resource ${String(place)}]`;
  }
  if (type === 'resource_link') return `[resource ${String(uri)}]`;
  return `[${String(type)} ${String(mimeType)}, ${typeof data === 'string' ? data.length : 0} characters of base64]`;
}

/** The result of a call, for the policy. */
export function resultText({ content, structuredContent, isError }: Json): string {
  const parts = Array.isArray(content) ? content.map(partText) : [];
  const text =
    parts.length > 0 || structuredContent === undefined ? parts.join('\n') : JSON.stringify(structuredContent);
  const shown = normalizeOutput(text) || '[no output]';
  return isError === true ? `Error: ${shown}` : shown;
}
