import { defineConfig } from 'vitest/config';

/** `unit` needs nothing but Node; the others start real servers of their own (see test/support). */
const project = (name: string, timeoutMs: number, globalSetup: string[] = []) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    environment: 'node',
    testTimeout: timeoutMs,
    hookTimeout: 60_000,
    globalSetup,
  },
});

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      // Longer than `until` waits, so that what a test waited for in vain is said.
      project('unit', 40_000),
      project('contract', 60_000),
      project('integration', 120_000),
      project('interop', 240_000),
      project('regression', 120_000),
      // Against a real API server, where there is one; see test/support/kube-setup.ts.
      project('kubernetes', 120_000, ['test/support/kube-setup.ts']),
    ],
  },
});
