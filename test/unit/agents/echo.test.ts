import { describe, expect, it } from 'vitest';

import { echoAgent } from '../../../src/agents/echo.ts';
import { agentRun, chunksOf, signal } from '../../support/agents/agent-run.ts';

describe('the echo agent', () => {
  it('says back each signal in order, between a start and a finish', async () => {
    const parts = [{ type: 'text', text: 'a' }, { type: 'file', data: 'x', mediaType: 'image/png' }, { type: 'text', text: 'b' }];
    const run = agentRun({ signals: [signal('one', { id: 's-1' }), signal(parts, { id: 's-2' })] });
    expect(await chunksOf(echoAgent.run, run)).toEqual([
      { type: 'start', runId: 'run-1', from: 'AGENT', payload: { id: 'echo' } },
      { type: 'text-delta', runId: 'run-1', from: 'AGENT', payload: { id: 's-1', text: 'one' } },
      { type: 'text-delta', runId: 'run-1', from: 'AGENT', payload: { id: 's-2', text: 'a\nb' } },
      { type: 'finish', runId: 'run-1', from: 'AGENT', payload: { stepResult: { reason: 'stop', isContinued: false } } },
    ]);
  });

  it('says back what arrives while it runs', async () => {
    const run = agentRun();
    const texts: unknown[] = [];
    for await (const chunk of echoAgent.run(run)) {
      if (chunk.type !== 'text-delta') continue;
      texts.push((chunk['payload'] as { text: string }).text);
      if (texts.length < 3) run.arrivals.push(signal(`arrived ${texts.length}`));
    }
    expect(texts).toEqual(['hello', 'arrived 1', 'arrived 2']);
  });

  it('says nothing more once it was told to stop, not even that it finished', async () => {
    const controller = new AbortController();
    const run = agentRun({ signals: [signal('one'), signal('two')], abortSignal: controller.signal });
    const types: string[] = [];
    for await (const chunk of echoAgent.run(run)) {
      types.push(chunk.type);
      if (chunk.type === 'text-delta') controller.abort();
    }
    expect(types).toEqual(['start', 'text-delta']);
  });
});
