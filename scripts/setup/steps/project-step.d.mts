import type { FoundNode } from '../pinned-node.mjs';

export interface ProjectStep {
  readonly root: string;
  readonly cache: string;
  readonly node: FoundNode;
  readonly module: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly args?: readonly string[];
}
export function projectStep(step: ProjectStep): Promise<{ readonly path: string; readonly cached: boolean }>;
