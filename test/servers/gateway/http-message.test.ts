/** Hunts requests that cost their reader more than their bytes, or that are read otherwise in small parts than whole. */
import { describe, expect, it } from 'vitest';
import { type GatewayRequest, RequestReader } from '../../../servers/gateway/http-message.ts';

const HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n';

/** The request that comes in parts of so many bytes. */
function read(text: string, size: number): GatewayRequest | undefined {
  const reader = new RequestReader();
  const bytes = Buffer.from(text, 'latin1');
  let request: GatewayRequest | undefined;
  for (let at = 0; at < bytes.length; at += size) request = reader.push(bytes.subarray(at, at + size));
  return request;
}

describe('a body in chunks', () => {
  it.each([1, 5, 1 << 20])('is the same in parts of %i bytes', (size) => {
    const request = read(`${HEAD}3\r\nabc\r\nB\r\n0\r\n\r\n1\r\nx\r\n\r\n0\r\n\r\n`, size);
    expect(Buffer.from(request?.body ?? []).toString()).toBe('abc0\r\n\r\n1\r\nx\r\n');
    expect(read(`${HEAD}3\r\nabc\r\n0\r\n`, size)).toBeUndefined();
  });

  it.each([1, 5, 1 << 20])('is refused in parts of %i bytes where its framing can be read in two ways', (size) => {
    const wrong = ['\r\n', 'g\r\n', '3 \r\nabc', '3;x=y\r\nabc', '3\nabc', '3\r\nabcd\r\n', '123456789\r\n'];
    for (const body of wrong) expect(() => read(HEAD + body, size), body).toThrow(/chunk/u);
    expect(() => read(`${HEAD}0\r\nx: y\r\n\r\n`, size)).toThrow('trailers');
    expect(() => read(`${HEAD}0\r\n\r\nGET`, size)).toThrow('one request');
  });

  it('has a bounded number of chunks, and of bytes before they come', () => {
    expect(read(`${HEAD}${'1\r\nx\r\n'.repeat(16_383)}0\r\n\r\n`, 5)?.body).toHaveLength(16_383);
    expect(() => read(HEAD + '1\r\nx\r\n'.repeat(16_385), 5)).toThrow('16384 chunks');
    expect(() => read(`${HEAD}100001\r\n`, 5)).toThrow('1048576 bytes');
  });

  it('is not read again from its start at each part', () => {
    // Each part ends as a last chunk does: a reader without a place parses all of it, two hundred thousand times.
    const part = '0\r\n\r\n';
    const body = part.repeat(200_000);
    const request = read(`${HEAD}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`, part.length);
    expect(request?.body).toHaveLength(body.length);
  });
});

it('a body of a length is whole with its last byte, and carries nothing else', () => {
  const head = 'POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n';
  expect(Buffer.from(read(`${head}abc`, 1)?.body ?? []).toString()).toBe('abc');
  expect(read(`${head}ab`, 1)).toBeUndefined();
  expect(() => read(`${head}abcd`, 1 << 20)).toThrow('one request');
});
