import { describe, expect, it } from 'vitest';

import { echoAgent } from '../../../src/agents/echo.ts';
import { AgentRegistry } from '../../../src/agents/registry.ts';

describe('the registry', () => {
  it('finds agents by id, and says which there are when there is none', () => {
    const registry = new AgentRegistry([echoAgent, { ...echoAgent, id: 'other' }]);
    expect(registry.get('echo')).toBe(echoAgent);
    expect(registry.list().map(agent => agent.id)).toEqual(['echo', 'other']);
    for (const id of ['nobody', 'toString', '__proto__', '']) {
      expect(() => registry.get(id)).toThrow(
        expect.objectContaining({ code: 'SIG_AGENT_UNKNOWN', details: { known: ['echo', 'other'] } }),
      );
    }
    expect(() => registry.get('nobody')).toThrow('known: echo, other');
  });

  it('takes no two agents with one id', () => {
    expect(() => new AgentRegistry([echoAgent, echoAgent])).toThrow('two agents have the id "echo"');
  });
});
