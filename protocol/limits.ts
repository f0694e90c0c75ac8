/** What is too much to be asked for at once: beyond it Temporal, a timer or a worker's memory would fail, and say less. Pure. */

/** Ten years: timers and deadlines hold no more than some centuries. */
export const LONGEST_SECONDS = 315_360_000;

/** Tasks of one batch: their names go over Temporal in one message, of 2 MB at most. */
export const MOST_TASKS = 20_000;

/** Rollouts of one batch, or of one cell of a sweep: each has a name and a place in memory. */
export const MOST_ROLLOUTS = 1_000_000;

/** Tasks that a run draws from: every step orders them all anew. */
export const MOST_POOL = 1_000_000;

/** Groups of a run under way at once, each a child workflow: Temporal fails a workflow that has 2,000 of them open, and one that has told its end may not have closed yet. */
export const MOST_GROUPS_AT_ONCE = 1_000;

/** Groups that one history of an asynchronous run may come to begin, at up to 13 events each: the server ends it at 51,200, and pauses and changes need room too. */
export const MOST_GROUPS_OF_A_HISTORY = 3_200;
