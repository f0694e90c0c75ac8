/** The seam of agents: a type of agent is a pure function that decides what follows a turn. */

import type { z } from 'zod';
import { Definition } from '../modules/check-definition.ts';
import { Registry } from '../modules/registry.ts';
import type { Command } from '../protocol/command.ts';
import type { CodecName } from '../protocol/conversation.ts';
import type { ParsedTurn } from '../protocol/message.ts';
import type { SubAgents } from './sub-agents.ts';
import { externalAgent } from './types/external.ts';
import { textAgent } from './types/text.ts';
import { toolsAgent } from './types/tools.ts';

/** What an agent sees of a turn that the policy ended by itself. */
export interface TurnView {
  /** Of the whole rollout, from 1. */
  readonly turn: number;
  /** Turns that may follow this one. Sub-agents share them with their callers. */
  readonly turnsLeft: number;
  /** Tokens of the agent's context after this turn. */
  readonly contextTokens: number;
  /** Tokens that it may still get. */
  readonly contextTokensLeft: number;
  /** `NAME@TURN` of each sub-agent down to this one. Empty for the rollout's own agent. */
  readonly agentPath: readonly string[];
  /** Sub-agents that may work below this one. */
  readonly depthLeft: number;
  /** Counts the agent's segments from 1. */
  readonly segment: number;
  readonly segmentsLeft: number;
  /** What this agent has decided in this segment, oldest first. Turns that were cut off have none. */
  readonly earlier: readonly Command[];
  /** The parsed turn. Always `no-call` if the agent reads text. */
  readonly parsed: ParsedTurn;
  /** How calls are written: in the policy's own text, or (`server`) parsed by its server. */
  readonly form: CodecName;
  /** Names of the tools that the agent may call. */
  readonly tools: readonly string[];
  /** The agents that the task offers. */
  readonly agents: SubAgents;
  /** True if the task has a `step`, which answers messages. Of a sub-agent: if its option `message` is `step` too. */
  readonly hasStep: boolean;
}

/** A program that is the agent. */
export interface AgentProgram {
  /** Run once in the sandbox `main`. Absent: it runs elsewhere, and reports its turns and its end. */
  readonly command?: string;
  /** How long it may work. */
  readonly timeoutSeconds: number;
  /** True if it reports the sampled tokens of every turn. */
  readonly tokens: boolean;
  /** True: its model calls go through the gateway, which records them. Absent: it is not given one. */
  readonly gateway?: boolean;
}

export interface AgentType<Options = unknown> {
  readonly name: string;
  /** Checks `agent.options` and fills in defaults. Absent: the type takes none. */
  readonly options?: z.ZodType<Options>;
  /** `calls`: the policy's text is parsed for tool calls. `text`: it is a message. */
  readonly reads: 'calls' | 'text';
  /**
   * Present if a program is the agent: no turn is sampled, and `decide` is asked only for scripts that act in its
   * place. Pure.
   */
  program?(options: Options): AgentProgram;
  /** Pure: the same view gives the same command. It runs in an activity, once per turn. */
  decide(view: TurnView, options: Options): Command;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const builtIn = [toolsAgent, textAgent, externalAgent].map((type) => [type.name, type as AgentType] as const);
const types = new Registry<AgentType>('agent', Object.fromEntries(builtIn));

/**
 * Adds a custom type of agent. The name must be new.
 * Errors: `DefinitionRefused` if a member is missing or wrong; `NameTaken`.
 */
export function defineAgent<Options>(type: AgentType<Options>): AgentType<Options> {
  const definition = new Definition('defineAgent', type, NAME, 'give letters, digits, dot, dash and underscore');
  definition.functions(['decide']);
  if (type.reads !== 'calls' && type.reads !== 'text')
    throw definition.refused('reads', type.reads, 'give calls or text');
  types.define(type.name, type as AgentType);
  return type;
}

/** `modules`: digest of the run's modules. Errors: `UnknownName`, with the known ones. */
export const agentNamed = (name: string, modules?: string): AgentType => types.get(name, modules);

/** The type for a task that has none. Without tools, a message is the answer or goes to the environment. */
export const defaultAgent = (tools: readonly unknown[]): string =>
  tools.length > 0 ? toolsAgent.name : textAgent.name;
