import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Agents of other projects, whose packages `node test/interop/agents.ts` fetches.
    exclude: [
      ...configDefaults.exclude,
      ...(process.env['LONGHAUL_INTEROP_AGENTS'] === undefined ? ['test/interop/**'] : []),
    ],
    globalSetup: 'test/support/global-setup.ts',
    // Real servers, sandboxes and engines, on machines with other work too: generous, since no test asserts a time.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // Of two cores, two workers leave half unused: most tests wait for servers and sandboxes.
    maxWorkers: 3,
    // Bundles of users' modules are imported as workers import them: by Node, through its import hooks.
    server: { deps: { external: [/\/[0-9a-f]{64}\.mjs$/] } },
  },
});
