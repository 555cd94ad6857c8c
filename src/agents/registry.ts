/** The agents of this instance, by id. */

import type { AgentDefinition } from '../contracts/agent.ts';
import { SignalsError } from '../core/errors.ts';

export class AgentRegistry {
  readonly #byId = new Map<string, AgentDefinition>();

  /** Throws `SIG_OPTION_INVALID` when two agents have one id. */
  constructor(agents: readonly AgentDefinition[]) {
    for (const agent of agents) {
      if (this.#byId.has(agent.id)) {
        throw new SignalsError('SIG_OPTION_INVALID', `two agents have the id ${JSON.stringify(agent.id)}; ids must differ`);
      }
      this.#byId.set(agent.id, agent);
    }
  }

  /** Throws `SIG_AGENT_UNKNOWN`. */
  get(agentId: string): AgentDefinition {
    const agent = this.#byId.get(agentId);
    if (agent) return agent;
    const known = [...this.#byId.keys()];
    const message = `there is no agent ${JSON.stringify(agentId.slice(0, 80))}; known: ${known.join(', ') || 'none'}`;
    throw new SignalsError('SIG_AGENT_UNKNOWN', message, { details: { known } });
  }

  list(): readonly AgentDefinition[] {
    return [...this.#byId.values()];
  }
}
