/** The command line of the development server: one database file that survives restarts, set for one busy machine. */

import { SEARCH_ATTRIBUTES } from './search-attributes.ts';

export interface ServerSettings {
  readonly port: number;
  /** Absent: there is no UI. */
  readonly ui?: { readonly host: string; readonly port: number };
  readonly database: string;
  readonly namespace: string;
}

/**
 * Limits that are meant for shared clusters are lifted: above all that a shard hands on what is due at most 20 times a
 * second, by which, with one shard, each task of a quiet server waited 45 ms. One partition per task queue spares
 * forwarding and keeps priorities strict; the time for database work is generous, since one connection serves everything.
 * It would keep the state of 128,000 workflows in memory, closed ones for an hour: some 40 KB each, which is 5 MB a step.
 * What a killed orchestrator was deciding is given to the next one after a workflow task's time: half of Temporal's ten
 * seconds is many times what the longest task takes, and a task that fails by it three times gets more each further time.
 * Timers may be late by what clocks of several hosts may differ, a second: one machine has one clock, and a retry after
 * 20 ms took that second.
 */
const DYNAMIC_CONFIG = {
  'frontend.rps': 20_000,
  'frontend.namespaceRPS': 20_000,
  'frontend.namespaceCount': 10_000,
  'history.rps': 20_000,
  'history.transferProcessorMaxPollRPS': 2000,
  'history.timerProcessorMaxTimeShift': '10ms',
  'matching.rps': 20_000,
  'matching.useNewMatcher': true,
  'matching.numTaskqueueReadPartitions': 1,
  'matching.numTaskqueueWritePartitions': 1,
  'history.shardIOTimeout': '20s',
  'history.hostLevelCacheMaxSize': 2_000,
  'history.defaultWorkflowTaskTimeout': '5s',
  // The HTTP API cannot be switched off, and answers whoever finds its port, web pages too. No name has a slash in it: one
  // that had none, a page could be served under, and resolved to this machine.
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
