/**
 * A tool: what the policy can call, in OpenAI's function schema. Its arguments reach it as the policy wrote them, not
 * a blank less, and whatever they are, the answer is an observation.
 */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { ToolCall, ToolSchema } from '../../protocol/message.ts';
import { type Arguments, ToolArgumentError, type ToolParameters, readArguments } from './arguments.ts';

export interface ToolContext {
  /** Journal key of this call; the same key gives the same answer. */
  readonly callId: string;
  readonly timeoutMs: number;
  /** Characters of one observation; default 8000. */
  readonly maxCharacters?: number;
}

/** What a call is answered. */
export interface Observation {
  readonly content: string;
  /** The call was not carried out, and nothing has changed: its tool, its arguments or what they name are wrong. */
  readonly refused?: true;
}

export function refusal(reason: string): Observation {
  return { content: `Error: ${reason}`, refused: true };
}

export interface Tool {
  readonly schema: ToolSchema;
  /** What is wrong with the arguments: parameter, value, remedy. `undefined` when nothing is. */
  validate(args: Readonly<Record<string, unknown>>): string | undefined;
  /** Such a call leaves workspace, shell and processes as they are, whatever comes of it. */
  onlyReads(call: ToolCall): boolean;
  /** Errors: `SandboxLost`, `SandboxUnavailable`; what the policy did wrong is an observation. */
  run(call: ToolCall, sandbox: Sandbox, context: ToolContext): Promise<Observation>;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly parameters: ToolParameters;
  readonly required: readonly string[];
  /** Left out: no call does. */
  readonly onlyReads?: (args: Readonly<Record<string, unknown>>) => boolean;
  /** The observation. Errors: `ToolArgumentError`, which becomes a refusal. */
  run(args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string>;
}

export const DEFAULT_MAX_CHARACTERS = 8000;

/** Makes a tool out of its name, its parameters and what it does. */
export function makeTool(definition: ToolDefinition): Tool {
  const { name, description, parameters, required } = definition;
  const read = (args: Readonly<Record<string, unknown>>): Arguments => readArguments(name, parameters, required, args);
  return {
    schema: {
      type: 'function',
      function: {
        name,
        description,
        parameters: { type: 'object', properties: parameters, required, additionalProperties: false },
      },
    },
    validate(args) {
      try {
        read(args);
        return undefined;
      } catch (error) {
        if (error instanceof ToolArgumentError) return error.message;
        throw error;
      }
    },
    onlyReads: (call) => definition.onlyReads?.(call.arguments) ?? false,
    async run(call, sandbox, context) {
      try {
        return { content: await definition.run(read(call.arguments), sandbox, context) };
      } catch (error) {
        if (error instanceof ToolArgumentError) return refusal(error.message);
        throw error;
      }
    },
  };
}
