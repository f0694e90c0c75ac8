/**
 * The JSON of a request, looked over before it is parsed: no body takes the server's thread for long, whatever it
 * nests. A look over 32 MiB takes a tenth of what parsing 32 MiB of numbers does.
 */

import { MAX_DEPTH } from '../../protocol/written-json.ts';
import { ApiError } from '../http/api-error.ts';

/** Of one body. A pass of as many tokens and datums as the server takes has fewer. */
export const MOST_OF = {
  'objects and lists': 2 ** 19,
  strings: 2 ** 20,
  values: 2 ** 22,
  /** Keys that are all different are what costs the parser the most. */
  'members in one object': 2 ** 14,
} as const;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** Without the bit in which brackets and braces differ. */
const [OPEN, CLOSE, EITHER] = [0x5b, 0x5d, 0xdf];
const [KEY, LONGEST] = [Buffer.from('seq_id'), 64];
/** What follows the key, where a double cannot hold the number. */
const LONG_NUMBER = /^(\s*:\s*)(\d{16,19})(?=\s*[,}])/;

/** Where the digits of the body's own `seq_id` begin and end, in bytes. */
type Span = readonly [from: number, to: number];

function spanAfter(body: Buffer, at: number): Span | undefined {
  const found = LONG_NUMBER.exec(body.toString('latin1', at, at + LONGEST));
  const [, before = '', digits = ''] = found ?? [];
  return found === null ? undefined : [at + before.length, at + before.length + digits.length];
}

/** The quote that ends the string that begins at `from`, or the body's end. */
function endOf(body: Buffer, from: number): number {
  let at = from + 1;
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
  return at;
}

/** Errors: `ApiError` 400 for what is nested too deep; 413 for too much of something. */
function lookOver(body: Buffer): Span | undefined {
  let [depth, nested, strings, values] = [0, 0, 0, 0];
  let span: Span | undefined;
  /** By depth: of the object that is open there. */
  const members = new Uint32Array(MAX_DEPTH + 1);
  const isObject = new Uint8Array(MAX_DEPTH + 1);
  const count = (what: keyof typeof MOST_OF, found: number) => {
    if (found > MOST_OF[what]) throw new ApiError(413, `the body may have at most ${MOST_OF[what]} ${what}`);
  };
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at] ?? 0;
    if (byte === COMMA) {
      count('values', (values += 1));
      // Of a list: none.
      count('members in one object', (members[depth] = (members[depth] ?? 0) + (isObject[depth] ?? 0)));
    }
    if (byte === QUOTE) {
      const end = endOf(body, at);
      count('strings', (strings += 1));
      // The last of several counts, as in JSON.parse.
      if (depth === 1 && KEY.equals(body.subarray(at + 1, end))) span = spanAfter(body, end + 1) ?? span;
      at = end;
    } else if ((byte & EITHER) === OPEN) {
      depth += 1;
      if (depth > MAX_DEPTH) throw new ApiError(400, `the body is nested more than ${MAX_DEPTH} deep`);
      count('objects and lists', (nested += 1));
      members[depth] = 0;
      isObject[depth] = byte === OPEN ? 0 : 1;
    } else if ((byte & EITHER) === CLOSE) depth -= 1;
  }
  return span;
}

/**
 * The value of a body, `{}` of an empty one. The body's own `seq_id` is text where a double cannot hold it; no other
 * number is changed. Errors: `ApiError` 400 for what is not JSON (NaN and infinities are none) or nested too deep, 413.
 */
export function readJson(body: Buffer): unknown {
  if (body.length === 0) return {};
  const span = lookOver(body);
  try {
    if (span === undefined) return JSON.parse(body.toString('utf8'));
    const [from, to] = span;
    return JSON.parse(
      `${body.toString('utf8', 0, from)}"${body.toString('utf8', from, to)}"${body.toString('utf8', to)}`,
    );
  } catch (error) {
    throw new ApiError(400, `the body is not JSON (${(error as Error).message}); NaN and Infinity are none`);
  }
}
