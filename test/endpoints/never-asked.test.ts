/** Hunts other notations of a forbidden address. No request is sent. */

import { expect, it } from 'vitest';
import { checkHost } from '../../endpoints/never-asked.ts';

const check = (host: string) => () => checkHost(new URL(`http://${host}/v1`));

it.each([
  '169.254.169.254.',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '①⑥⑨。254。169。254',
  '0',
  '[::a9fe:a9fe]',
  '[64:ff9b::a9fe:a9fe]',
  '[::ffff:0:a9fe:a9fe]',
  '[64:ff9b::6464:64c8]',
  '[fd20:ce::254]',
  '[fd00:42::42]',
  '[2002:a9fe:a9fe::]',
  '[2002:a9fe:1::5]',
  '[2002:6464:64c8:1::2]',
  '[64:ff9b:1::a9fe:a9fe]',
  '[64:ff9b:1:2:3:4:a9fe:a9fe]',
  '[64:ff9b:1:fffe::6464:64c8]',
  '[febf::1]',
  '[::]',
])('%s is one of them', (host) => {
  expect(check(host)).toThrow(expect.objectContaining({ kind: 'address-not-allowed' }));
});

it.each([
  '127.0.0.1',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '10.0.0.1',
  '[64:ff9b::808:808]',
  '[64:ff9b:1::808:808]',
  '[64:ff9b:1::5]',
  '[2002:808:808::a9fe:a9fe]',
  '[2001:db8::a9fe:a9fe]',
  '[fd20:ce::255]',
  'localhost',
])('%s may be asked', (host) => {
  expect(check(host)).not.toThrow();
});
