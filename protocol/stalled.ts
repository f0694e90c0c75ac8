/** What the watchdog tells a run or an eval of what is stuck in it: for a person who looks at its details. */

/** The signal's name; its one argument is `Stalled`. */
export const STALLED = 'stalled';

/** A line for each thing that is stuck; none: nothing is any more. */
export type Stalled = readonly string[];
