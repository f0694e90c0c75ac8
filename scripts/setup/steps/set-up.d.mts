import type { FoundNode } from '../pinned-node.mjs';

export interface SetUpStep {
  readonly name: string;
  readonly seconds: number;
  /** The result of the step, in words. */
  readonly result: string;
}
export function setUp(options: {
  readonly root?: string;
  readonly cache?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly say: (line: string) => void;
  readonly onStep?: (step: SetUpStep) => void;
}): Promise<FoundNode>;
