/** Upper limits of settings. Beyond them Temporal, a timer or a worker's memory would fail with a worse error. Pure. */

/** Ten years. Timers and deadlines overflow after some centuries. */
export const LONGEST_SECONDS = 315_360_000;

/** Of a program that is the agent: an activity that runs, and its retries, end within the longest outage of workers. */
export const LONGEST_PROGRAM_SECONDS = 6 * 86_400;

/** Tasks of one batch: their names are in one message of Temporal, which may have at most 2 MB. */
export const MOST_TASKS = 20_000;

/** Rollouts of one batch or of one cell of a sweep: each takes memory. */
export const MOST_ROLLOUTS = 1_000_000;

/** Tasks that a run draws from: every step shuffles all of them. */
export const MOST_POOL = 1_000_000;

/**
 * Groups of a run that run at once, each a child workflow. Temporal fails a workflow with 2,000 open children, and a
 * child that has reported its end may still be open.
 */
export const MOST_GROUPS_AT_ONCE = 1_000;

/**
 * Groups that one history of an asynchronous run may start, at up to 13 events each. The server ends a history at
 * 51,200 events, and pauses and configuration changes add events too.
 */
export const MOST_GROUPS_OF_A_HISTORY = 3_200;
