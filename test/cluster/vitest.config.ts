import { defineConfig } from 'vitest/config';

/** One cluster for all: scenarios take turns. Started by run.ts, which makes what they need. */
export default defineConfig({
  test: {
    name: 'cluster',
    include: ['test/cluster/scenarios/*.test.ts'],
    globalSetup: ['test/cluster/setup.ts'],
    fileParallelism: false,
    testTimeout: 900_000,
    hookTimeout: 300_000,
  },
});
