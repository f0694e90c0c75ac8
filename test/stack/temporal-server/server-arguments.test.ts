/** Hunts a server that loses its data, or lacks the search attributes that workflows set. */

import { expect, test } from 'vitest';
import { serverArguments } from '../../../stack/temporal-server/server-arguments.ts';

const settings = { port: 1, ui: { host: '127.1.2.3', port: 2 }, database: '/home/temporal.db', namespace: 'default' };

test('the database is a file in write-ahead mode, and every search attribute is registered', () => {
  const args = serverArguments(settings);
  expect(args).toEqual(
    expect.arrayContaining([
      '--db-filename=/home/temporal.db',
      '--sqlite-pragma=journal_mode=wal',
      '--sqlite-pragma=synchronous=normal',
      '--search-attribute=LonghaulReward=Double',
    ]),
  );
  expect(args.filter((arg) => arg.startsWith('--search-attribute='))).toHaveLength(9);
});

test('another namespace than the default is made', () => {
  expect(serverArguments(settings).some((arg) => arg.startsWith('--namespace'))).toBe(false);
  expect(serverArguments({ ...settings, namespace: 'mine' })).toContain('--namespace=mine');
});

/** Why: a killed orchestrator is back at work after this time, and Temporal's default is ten seconds. */
test('a workflow task that its worker lost is given to another one after five seconds', () => {
  expect(serverArguments(settings)).toContain('--dynamic-config-value=history.defaultWorkflowTaskTimeout="5s"');
});

/** Why: by default the server keeps the workflows that closed within the last hour in memory. */
test('the state of so many workflows is kept in memory, however many have closed', () => {
  expect(serverArguments(settings)).toContain('--dynamic-config-value=history.hostLevelCacheMaxSize=2000');
});

/** Why: by Temporal's allowance for differing clocks, a retry that is due in 20 ms comes after a second. */
test('timers fire when they are due', () => {
  expect(serverArguments(settings)).toContain('--dynamic-config-value=history.timerProcessorMaxTimeShift="10ms"');
});
