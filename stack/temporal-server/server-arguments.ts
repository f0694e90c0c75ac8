/** The command line of the development server: one database file that survives restarts, tuned for one busy machine. */

import { SEARCH_ATTRIBUTES } from './search-attributes.ts';

export interface ServerSettings {
  readonly port: number;
  /** Absent: no UI. */
  readonly ui?: { readonly host: string; readonly port: number };
  readonly database: string;
  readonly namespace: string;
}

/**
 * Limits that are meant for shared clusters are lifted:
 * - Polls for due tasks: the default is 20 per second and shard. With one shard, a task of an idle server waited 45 ms.
 * - One partition per task queue avoids forwarding and keeps priorities strict.
 * - The time limit of database work is high, since one connection serves everything.
 * - The cache of workflow states holds 128,000 by default, closed ones for an hour: some 40 KB each, 5 MB per step.
 * - A workflow task of a killed orchestrator goes to the next one after the task's time limit. Half of Temporal's ten
 *   seconds is many times what the longest task takes. A task that exceeds it three times gets more time at each retry.
 * - By default timers may be late by a second, for hosts whose clocks differ. One machine has one clock, and a retry
 *   after 20 ms took that second.
 * - By default a timer queue that looks three times for timers of the same second counts as stuck: the second's timers
 *   go to a second reader, which is minutes behind under load. With timers that are on time, three looks are usual.
 *   Rows from the oldest such timer on are kept, and each look reads them again: after 450 steps that was more than
 *   half of the server's processor time.
 */
const DYNAMIC_CONFIG = {
  'frontend.rps': 20_000,
  'frontend.namespaceRPS': 20_000,
  'frontend.namespaceCount': 10_000,
  'history.rps': 20_000,
  'history.transferProcessorMaxPollRPS': 2000,
  'history.timerProcessorMaxTimeShift': '10ms',
  'history.queueReaderStuckCriticalAttempts': 0,
  'matching.rps': 20_000,
  'matching.useNewMatcher': true,
  'matching.numTaskqueueReadPartitions': 1,
  'matching.numTaskqueueWritePartitions': 1,
  'history.shardIOTimeout': '20s',
  'history.hostLevelCacheMaxSize': 2_000,
  'history.defaultWorkflowTaskTimeout': '5s',
  // Between two of these, a queue walks over every task that it has done at each new one: after the default thirty
  // seconds of many rollouts that is a third of the server's processor time.
  'history.transferProcessorUpdateAckInterval': '2s',
  'history.timerProcessorUpdateAckInterval': '2s',
  'history.visibilityProcessorUpdateAckInterval': '2s',
  // The HTTP API cannot be switched off, and answers anyone who finds its port, web pages too. The only allowed host
  // name has a slash, which no host has: a page could be served under any other name, resolved to this machine.
  'frontend.httpAllowedHosts': ['closed/'],
  'system.enableNexus': false,
} as const;

export function serverArguments(settings: ServerSettings): string[] {
  const attributes = Object.entries(SEARCH_ATTRIBUTES).map(([name, type]) => `--search-attribute=${name}=${type}`);
  const config = Object.entries(DYNAMIC_CONFIG).map(
    ([key, value]) => `--dynamic-config-value=${key}=${JSON.stringify(value)}`,
  );
  return [
    'server',
    'start-dev',
    '--ip=127.0.0.1',
    `--port=${settings.port}`,
    ...(settings.ui === undefined ? ['--headless'] : [`--ui-ip=${settings.ui.host}`, `--ui-port=${settings.ui.port}`]),
    `--db-filename=${settings.database}`,
    '--sqlite-pragma=journal_mode=wal',
    '--sqlite-pragma=synchronous=normal',
    '--log-level=error',
    ...(settings.namespace === 'default' ? [] : [`--namespace=${settings.namespace}`]),
    ...attributes,
    ...config,
  ];
}
