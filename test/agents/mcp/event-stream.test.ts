/** Hunts events that are lost, joined or split, however their bytes arrive. */
import { expect, it } from 'vitest';
import { EventStream } from '../../../agents/mcp/event-stream.ts';

/** All events of a body that arrives in parts of `size` bytes. */
function eventsOf(body: string, size: number): string[] {
  const bytes = Buffer.from(body);
  const stream = new EventStream();
  const events: string[] = [];
  for (let at = 0; at < bytes.length; at += size) events.push(...stream.add(bytes.subarray(at, at + size)));
  return [...events, ...stream.end()];
}

it.each([
  ['data: a\n\ndata: b\n\n', ['a', 'b']],
  ['data: a\r\ndata: b\r\n\r\ndata: c\r\r', ['a\nb', 'c']],
  [': a note\n\nevent: x\nid: 7\nretry: 10\n\ndata:x\n\n', ['x']],
  ['data\n\ndata:\n\ndata:  two spaces\n\n', ['', '', ' two spaces']],
  ['\uFEFFdata: ✓ é\n\ndataset: no\n\n', ['✓ é']],
  ['data: not ended', ['not ended']],
  ['', []],
])('%j', (body, events) => {
  for (const size of [1, 2, 3, 5, 1000]) expect(eventsOf(body, size)).toEqual(events);
});

it('a line of megabytes in small parts takes time that grows with its length alone', () => {
  const long = 'x'.repeat(4 << 20);
  expect(eventsOf(`data: ${long}\n\n`, 1024)).toEqual([long]);
});
