/** Hunts a binding that is linked and does not work: the real one is loaded in a child process. */

import { expect, test } from 'vitest';
import { loadEngine } from '../../scripts/setup/engine/engine-binding.mjs';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { findNode } from '../../scripts/setup/pinned-node.mjs';

test('the binding that the set-up built loads under the pinned Node and multiplies', () => {
  const node = findNode();
  if (node === undefined) throw new Error('the pinned Node is not installed: npm run setup');
  expect(node.pinned).toBe(true);
  expect(loadEngine(packageRoot, node)).toBe('2.21.0');
});

test('without a binding there is no version', () => {
  expect(loadEngine('/', { path: process.execPath, version: process.versions.node, pinned: false })).toBeUndefined();
});
