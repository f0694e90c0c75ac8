/**
 * A tool: a function that the policy can call, in OpenAI's function schema. It receives its arguments exactly as the
 * policy wrote them. The answer is an observation for any arguments.
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

/** The answer of a call. */
export interface Observation {
  readonly content: string;
  /**
   * True if the call did not run and changed nothing: its tool or its arguments are wrong, or refer to something
   * missing.
   */
  readonly refused?: true;
}

export function refusal(reason: string): Observation {
  return { content: `Error: ${reason}`, refused: true };
}

export interface Tool {
  readonly schema: ToolSchema;
  /** The error in the arguments, with parameter, value and remedy; `undefined` if there is none. */
  validate(args: Readonly<Record<string, unknown>>): string | undefined;
  /** True if the call never changes the workspace, the shell or processes. */
  onlyReads(call: ToolCall): boolean;
  /** Errors: `SandboxLost`, `SandboxUnavailable`. Mistakes of the policy become observations. */
  run(call: ToolCall, sandbox: Sandbox, context: ToolContext): Promise<Observation>;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly parameters: ToolParameters;
  readonly required: readonly string[];
  /** True if the call never changes the sandbox. Default: false for every call. */
  readonly onlyReads?: (args: Readonly<Record<string, unknown>>) => boolean;
  /** Returns the observation. Errors: `ToolArgumentError`, which becomes a refusal. */
  run(args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string>;
}

export const DEFAULT_MAX_CHARACTERS = 8000;

/** Makes a tool from its definition. */
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
