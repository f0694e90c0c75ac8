/** Hunts defaults that contradict each other: fewer slots than live sandboxes make a queue look like a dead host. */

import { afterEach, expect, test, vi } from 'vitest';
import { readWorkerSettings } from '../../workers/settings.ts';

afterEach(() => vi.unstubAllEnvs());

test.each(['', '7', '4096'])('every live sandbox has a slot, with LONGHAUL_MAX_SANDBOXES=%j', (given) => {
  vi.stubEnv('LONGHAUL_MAX_SANDBOXES', given);
  vi.stubEnv('LONGHAUL_SLOTS_AGENT_RUN', '');
  const { maxLiveSandboxes, slots } = readWorkerSettings();
  if (given !== '') expect(maxLiveSandboxes).toBe(Number(given));
  expect(slots['agent-run']).toBeGreaterThanOrEqual(maxLiveSandboxes);
});
