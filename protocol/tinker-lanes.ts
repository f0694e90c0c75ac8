/**
 * How the work of the Tinker API reaches workers: a workflow per model, one per base for samples, and their activity.
 */

/** The queue of lanes whose kind of engine is not decided yet; `kindQueue` of it for the others. */
export const TINKER_QUEUE = 'gpu-tinker';

/** What one workflow drains: the operations of a model in their order, or the samples of all adapters of a base. */
export type TinkerLane =
  | { readonly what: 'model'; readonly model: string }
  | { readonly what: 'sampling'; readonly base: string };

/** The lane's name in the journal, under which one worker holds it. */
export function laneName(lane: TinkerLane): string {
  return lane.what === 'model' ? lane.model : `sampling:${lane.base}`;
}

/** The id of the lane's workflow. */
export function laneWorkflowId(lane: TinkerLane): string {
  return lane.what === 'model' ? `tinker/${lane.model}` : `tinker/sampling/${lane.base}`;
}

/** The type of the workflow. */
export const TINKER_WORKFLOW = 'tinkerModel';
/** The signal that says: the lane has work. */
export const TINKER_WAKE = 'wake';

export interface TinkerWorkflowInput {
  readonly lane: TinkerLane;
  /** Of the engine that began; absent: nothing has run yet. */
  readonly kind?: string;
}

/** How one execution of the activity ended. */
export interface DrainOutcome {
  /** `idle`: nothing waits, and the state is saved. `more`: another execution continues. */
  readonly end: 'idle' | 'more';
}

export interface TinkerActivities {
  /** The kind of engine that has the lane; the first worker that is asked decides. */
  openTinkerLane(input: { readonly lane: TinkerLane }): Promise<{ readonly kind: string }>;
  /** Runs what waits in the lane until it has been idle for a while. */
  drainTinkerLane(input: { readonly lane: TinkerLane }): Promise<DrainOutcome>;
}
