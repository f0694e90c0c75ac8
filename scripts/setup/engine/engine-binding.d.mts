import type { FoundNode } from '../pinned-node.mjs';

/** Loads the binding in a child; TensorFlow's version, or `undefined` when it does not load or multiplies wrongly. */
export function loadEngine(root: string, node: FoundNode, env?: NodeJS.ProcessEnv): string | undefined;
