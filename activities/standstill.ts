/** Whether this process stood still, stopped or frozen: the server may have given up what it does, and nobody has said so yet. */

import { performance } from 'node:perf_hooks';

const TICK_MS = 1_000;
/** Half of the silence after which an activity is given up. */
const LONG_MS = 7_500;

let lastTick = 0;
/** When it last went on after it had stood still. */
let wentOn = -Infinity;

function tick(): void {
  const now = performance.now();
  if (now - lastTick > LONG_MS) wentOn = now;
  lastTick = now;
}

let timer: NodeJS.Timeout | undefined;

/** From now on: the answer is asked for later. */
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
