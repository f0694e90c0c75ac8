/** Memory of processes and sizes of databases at one moment of a soak, from `/proc` and the file system. */

import { existsSync, readFileSync, statSync } from 'node:fs';

export interface ProcessSample {
  readonly residentMiB: number;
  /** The part of it that is not backed by files. */
  readonly anonymousMiB: number;
  readonly cpuSeconds: number;
}

export interface Sample {
  /** Steps or rollouts that were done at this moment. */
  readonly at: number;
  readonly seconds: number;
  /** By name; a process that is restarting is missing. */
  readonly processes: Readonly<Record<string, ProcessSample>>;
  /** Bytes by name, with the write-ahead logs. */
  readonly databases: Readonly<Record<string, number>>;
}

const TICKS_PER_SECOND = 100;
const mebibytes = (text: string, field: string): number =>
  Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'mu').exec(text)?.[1] ?? 0) / 1024);

/** `undefined` if the process has ended. */
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
  /** The start of the soak by `performance.now`. */
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
