/** Text out of what a command wrote: invalid UTF-8 becomes U+FFFD, and a cut never makes such a character itself. */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/** The length without an incomplete character at the end. */
function wholeEnd(bytes: Uint8Array): number {
  let lead = bytes.length - 1;
  while (lead > 0 && lead > bytes.length - 4 && isContinuation(bytes[lead])) lead -= 1;
  const first = bytes[lead] ?? 0;
  const needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return lead + needed > bytes.length ? Math.max(lead, 0) : bytes.length;
}

/** Joins the head and the tail of an output; where bytes were dropped between them, a line says how many. */
export function joinOutput(head: Uint8Array, tail: Uint8Array, droppedBytes: number): string {
  if (droppedBytes === 0) return decoder.decode(Buffer.concat([head, tail]));
  let start = 0;
  while (start < 3 && isContinuation(tail[start])) start += 1;
  const before = decoder.decode(head.subarray(0, wholeEnd(head)));
  return `${before}\n[${droppedBytes} bytes dropped]\n${decoder.decode(tail.subarray(start))}`;
}
