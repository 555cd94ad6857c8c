/** For the kubelet. None of these asks the store: a store that is away must not get pods restarted. */

import { z } from 'zod';

import type { HealthReport, HealthView } from '../ports.ts';
import type { Route } from '../route.ts';

const report = z.object({ ok: z.boolean(), reasons: z.array(z.string()) });

export function healthRoutes(health: HealthView): Route[] {
  const probe = (path: string, summary: string, ask: () => HealthReport): Route => ({
    method: 'get',
    path,
    summary,
    answers: { 200: { description: 'Yes.', schema: report }, 503: { description: 'No, and why.', schema: report } },
    handle: (_request, response) => {
      const { ok, reasons = [] } = ask();
      response.setHeader('Cache-Control', 'no-store');
      response.status(ok ? 200 : 503).json({ ok, reasons });
    },
  });
  return [
    probe('/livez', 'Whether the process works; a restart would help if not.', () => health.live()),
    probe('/readyz', 'Whether requests should be sent here.', () => health.ready()),
    probe('/startupz', 'Whether the start is through.', () => health.started()),
  ];
}
