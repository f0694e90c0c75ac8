/** Hunts a network connection without compression because it was taken for a local one. */

import { expect, it } from 'vitest';
import { compressionFor } from '../../connection/temporal-connection.ts';

it.each(['127.0.0.1:7233', '127.0.0.2:80', 'localhost:7233', '[::1]:7233'])('does not compress to %s', (address) => {
  expect(compressionFor(address)).toEqual({ grpcCompression: { codec: 'none' } });
});

it.each(['temporal.example:7233', 'localhost.example:7233', '10.0.0.1:7233', '127.0.0.1.example:7233'])(
  'leaves it to Temporal to %s',
  (address) => {
    expect(compressionFor(address)).toEqual({});
  },
);
