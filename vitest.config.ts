import { defineConfig } from 'vitest/config';

/** `unit` needs nothing but Node; the others start real servers of their own (see test/support). */
const project = (name: string, timeoutMs: number) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    environment: 'node',
    testTimeout: timeoutMs,
    hookTimeout: 60_000,
  },
});

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      project('unit', 10_000),
      project('contract', 60_000),
      project('integration', 120_000),
      project('interop', 240_000),
      project('regression', 120_000),
    ],
  },
});
