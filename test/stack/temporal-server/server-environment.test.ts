/** Hunts a server that takes more memory than the machine has, or overrides the user's settings of Go. */

import { expect, test } from 'vitest';
import { serverEnvironment } from '../../../stack/temporal-server/server-environment.ts';

const GIB = 2 ** 30;

test('with memory the server collects seldom, within a sixteenth of it; with little, as Go does', () => {
  expect(serverEnvironment({}, 16 * GIB)).toEqual({ GOGC: '400', GOMEMLIMIT: '1024MiB' });
  expect(serverEnvironment({}, 8 * GIB)).toEqual({ GOGC: '400', GOMEMLIMIT: '512MiB' });
  expect(serverEnvironment({}, 8 * GIB - 1)).toEqual({});
});

test("the user's own settings of Go stay", () => {
  expect(serverEnvironment({ GOGC: '50' }, 64 * GIB)).toEqual({});
  expect(serverEnvironment({ GOMEMLIMIT: '1GiB' }, 64 * GIB)).toEqual({});
});
