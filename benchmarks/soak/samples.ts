/** What processes and databases hold at one moment of a soak, by `/proc` and the file system. */

import { existsSync, readFileSync, statSync } from 'node:fs';

export interface ProcessSample {
  readonly residentMiB: number;
  /** Of it, what is not a file's. */
  readonly anonymousMiB: number;
  readonly cpuSeconds: number;
}

export interface Sample {
  /** Steps, or rollouts, that were done by then. */
  readonly at: number;
  readonly seconds: number;
  /** By name; a process that is being replaced is missing. */
  readonly processes: Readonly<Record<string, ProcessSample>>;
  /** Bytes with their logs, by name. */
  readonly databases: Readonly<Record<string, number>>;
}

const TICKS_PER_SECOND = 100;
const mebibytes = (text: string, field: string): number =>
  Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'mu').exec(text)?.[1] ?? 0) / 1024);

/** `undefined` where it has ended. */
export function sampleProcess(pid: number): ProcessSample | undefined {
  try {
    const memory = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /su, '')
      .split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    return {
      residentMiB: mebibytes(memory, 'Rss'),
      anonymousMiB: mebibytes(memory, 'Anonymous'),
      cpuSeconds: ticks / TICKS_PER_SECOND,
    };
  } catch {
    return undefined;
  }
}

const bytesOf = (path: string): number =>
  [path, `${path}-wal`].reduce((sum, one) => sum + (existsSync(one) ? statSync(one).size : 0), 0);

export interface Watched {
  readonly pids: () => Readonly<Record<string, number>>;
  /** Paths by name. */
  readonly databases: Readonly<Record<string, string>>;
  /** By `performance.now`. */
  readonly begun: number;
}

export function sampleAll({ pids, databases, begun }: Watched, at: number): Sample {
  const processes = Object.entries(pids()).flatMap(([name, pid]) => {
    const sample = sampleProcess(pid);
    return sample === undefined ? [] : [[name, sample] as const];
  });
  return {
    at,
    seconds: Math.round((performance.now() - begun) / 1000),
    processes: Object.fromEntries(processes),
    databases: Object.fromEntries(Object.entries(databases).map(([name, path]) => [name, bytesOf(path)])),
  };
}
