/**
 * Signals for a runtime to look at: `node traffic.ts <signals a second> <url>...`, until SIGTERM. Every 10 seconds it says what
 * became of them. A pod that is away costs its signals an error here, as it would a client without retries.
 */

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

const threads = 20;
const reportMs = 10_000;

async function main(): Promise<void> {
  const [rateText = '', ...urls] = process.argv.slice(2);
  const perSecond = Number(rateText);
  if (!(perSecond > 0 && perSecond <= 1000) || urls.length === 0 || !urls.every(url => URL.canParse(url))) {
    throw new Error('usage: node traffic.ts <signals a second, up to 1000> <url>...');
  }
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort());
  process.once('SIGINT', () => stop.abort());
  const counts = new Map<string, number>();
  const report = setInterval(() => console.log(`traffic: ${shown(counts)}`), reportMs);
  const underWay = new Set<Promise<void>>();
  while (!stop.signal.aborted) {
    const sending = send(urls, counts).finally(() => underWay.delete(sending));
    underWay.add(sending);
    await pause(1000 / perSecond, undefined, { signal: stop.signal }).catch(() => {}); // told to stop
  }
  clearInterval(report);
  await Promise.all(underWay);
  console.log(`traffic: ${shown(counts)}`);
}

/** One signal; one in ten is sent twice, as by a client that lost the answer, and one in five waits for its own turn. */
async function send(urls: readonly string[], counts: Map<string, number>): Promise<void> {
  const id = randomUUID();
  const threadId = `thread-${Math.floor(Math.random() * threads)}`;
  const queued = Math.random() < 0.2;
  const times = Math.random() < 0.1 ? 2 : 1;
  for (let time = 0; time < times; time++) {
    const url = urls[Math.floor(Math.random() * urls.length)] ?? '';
    const outcome = await post(`${url}/api/agents/worker/signals`, {
      resourceId: 'demo',
      threadId,
      signal: { id, type: 'user', contents: `signal ${id.slice(0, 8)}` },
      ...(queued && { ifActive: { behavior: 'persist' } }),
    });
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
}

async function post(url: string, body: object): Promise<string> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(10_000),
    });
    const answer = (await response.json()) as { action?: string; duplicate?: boolean; error?: { code: string } };
    if (!response.ok) return answer.error?.code ?? `status ${response.status}`;
    return answer.duplicate ? 'duplicate' : (answer.action ?? 'accepted');
  } catch {
    return 'no answer';
  }
}

function shown(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([outcome, count]) => `${outcome} ${count}`).sort().join(', ');
}

await main();
