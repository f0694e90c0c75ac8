/**
 * Detects that this process was stopped or frozen: the server may have given up its activities, without notice so far.
 */

import { performance } from 'node:perf_hooks';

const TICK_MS = 1_000;
/** Half of the heartbeat timeout, after which the server gives an activity up. */
const LONG_MS = 7_500;

let lastTick = 0;
/** When the process last continued after it was frozen. */
let wentOn = -Infinity;

function tick(): void {
  const now = performance.now();
  if (now - lastTick > LONG_MS) wentOn = now;
  lastTick = now;
}

let timer: NodeJS.Timeout | undefined;

/** Watches from now on. The returned function returns true if the process was frozen since. */
export function watchStandstill(): () => boolean {
  const since = performance.now();
  if (timer === undefined) {
    lastTick = since;
    timer = setInterval(tick, TICK_MS).unref();
  }
  return () => {
    tick();
    return wentOn > since;
  };
}
