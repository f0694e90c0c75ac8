export interface FoundNode {
  readonly path: string;
  readonly version: string;
  readonly pinned: boolean;
}
export const OLDEST_NODE: readonly [number, number];
export function findNode(root?: string, running?: { path: string; version: string }): FoundNode | undefined;
export function isNewEnough(version: string): boolean;
