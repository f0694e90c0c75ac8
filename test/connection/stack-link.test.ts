/** Hunts a program that ends because its stack's state cannot be read for a moment. */

import { credentials, status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { StackLink } from '../../connection/stack-link.ts';

it("a call fails with a retryable error if the stack's state cannot be read", async () => {
  const now = () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  };
  const link = new StackLink(
    { home: '/home/of/it', address: '127.0.0.1:1', id: 'a' },
    credentials.createInsecure(),
    {},
    { now },
  );
  expect(await link.check()).toMatchObject({
    code: status.UNAVAILABLE,
    details: 'the state of the stack in /home/of/it cannot be read: EMFILE: too many open files',
  });
  link.close();
});
