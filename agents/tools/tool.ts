/**
 * A tool: a function that the policy can call, in OpenAI's function schema. It receives its arguments exactly as the
 * policy wrote them. The answer is an observation for any arguments.
 */

import type { z } from 'zod';
import { resolveOptions } from '../../modules/options.ts';
import type { ToolCall, ToolSchema } from '../../protocol/message.ts';
import type { ImageRef } from '../../protocol/image.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';
import {
  ArgumentReader,
  type Arguments,
  schemaOf,
  ToolArgumentError,
  type ToolParameters,
} from './schema/arguments.ts';
import type { ObjectSchema } from './schema/json-schema.ts';

/**
 * What a call changes. `sandbox`: the task's sandbox; such calls alone run again in one that replaces a lost sandbox.
 * `none`: nothing. `outside`: something that no sandbox holds; such a call never runs twice.
 */
export type ToolEffect = 'none' | 'sandbox' | 'outside';

export interface ToolContext {
  /** Journal key of this call; the same key gives the same answer. */
  readonly callId: string;
  readonly timeoutMs: number;
  /** Characters of one observation; default 8000. */
  readonly maxCharacters?: number;
}

/** What a tool that runs in the worker may use. It keeps nothing from call to call. */
export interface WorkerServices {
  readonly rollout: string;
  /** From 1. */
  readonly attempt: number;
  /** From 1. */
  readonly turn: number;
  /** Bytes in the store, by reference. */
  readonly objects: {
    readonly get: (ref: ObjectRef) => Promise<Uint8Array>;
    readonly put: (bytes: Uint8Array) => Promise<ObjectRef>;
  };
  /** The value of an environment variable that LONGHAUL_SECRETS names. Errors: `UserInputError`. */
  readonly secret: (name: string) => string;
  /**
   * The calls of this tool that ran earlier in the attempt, by whichever agent, oldest first: what a tool that keeps
   * nothing can know of them.
   */
  readonly earlierCalls: () => Promise<readonly ToolCall[]>;
  /** Asks a judge of the configuration, as an environment's `ctx.ask` does. */
  readonly ask: (
    question: string | ReadonlyArray<{ readonly role: 'system' | 'user' | 'assistant'; readonly content: string }>,
    options?: { readonly judge?: string },
  ) => Promise<string>;
  /** Milliseconds since the epoch. A call that has not ended by then is answered without its result. */
  readonly deadline: number;
  /** Aborted at the deadline, and if the answer no longer counts. */
  readonly signal: AbortSignal;
}

/** Given to `Tool.run`. `worker`: for tools that run there. */
export type CallContext = ToolContext & { readonly worker?: WorkerServices };

/** The answer of a call. */
export interface Observation {
  readonly content: string;
  /**
   * True if the call did not run and changed nothing: its tool or its arguments are wrong, or refer to something
   * missing.
   */
  readonly refused?: true;
  /** Absent: there are none. */
  readonly images?: readonly ImageRef[];
}

/** Images as a tool returns them: they are not in the store yet. */
export interface Seen {
  readonly seen?: readonly Uint8Array[];
}

/** The answer of a tool that returns images. `text` says what they show: some policies read nothing else. */
export interface TextWithImages {
  readonly text: string;
  /** PNG, JPEG or WebP. */
  readonly images: readonly Uint8Array[];
}

export function refusal(reason: string): Observation {
  return { content: `Error: ${reason}`, refused: true };
}

export interface Tool {
  readonly schema: ToolSchema;
  readonly runs: 'sandbox' | 'worker';
  readonly effect: ToolEffect;
  /** True if its answers may have images. */
  readonly images: boolean;
  /** True if its answer depends on the calls before it, also those of its message. */
  readonly inOrder: boolean;
  /** The error in the arguments, with parameter, value and remedy; `undefined` if there is none. */
  validate(args: Readonly<Record<string, unknown>>): string | undefined;
  /** True if the call never changes the workspace, the shell or processes. */
  onlyReads(call: ToolCall): boolean;
  /**
   * `sandbox` is `undefined` only for tools that run in the worker.
   * Errors: `SandboxLost`, `SandboxUnavailable`. Mistakes of the policy become observations.
   */
  run(call: ToolCall, sandbox: Sandbox | undefined, context: CallContext): Promise<Observation & Seen>;
  /** Finds what the tool lacks, such as a key. Errors: `UserInputError` under `field`. */
  check(field: string): void;
  /** The tool with a task's options. Errors: `UserInputError` under `field`. */
  withOptions(given: unknown, field: string): Tool;
}

/** Parameters by name, or one JSON Schema of all of them (`{ type: 'object', properties, required }`). */
type Parameters =
  | { readonly parameters: ToolParameters; readonly required: readonly string[] }
  | { readonly parameters: ObjectSchema; readonly required?: undefined };

type Common<Options> = Parameters & {
  readonly name: string;
  readonly description: string;
  /** Checks the options of a task's entry (`{ name, options }`) and fills in defaults. Absent: the tool takes none. */
  readonly options?: z.ZodType<Options>;
  /** True if `run` may return images. Default: false. */
  readonly images?: boolean;
  /** True for a tool that uses `earlierCalls`: it never runs at once with another call. Default: false. */
  readonly inOrder?: boolean;
  /**
   * Finds what the tool lacks, such as a key, before a run starts. It runs in the process that opens the run's tasks.
   * Errors: `UserInputError` under `field`. Absent: it lacks nothing.
   */
  check?(options: Options, field: string): void;
};

/** A tool that acts in the task's sandbox. */
export type SandboxToolDefinition<Options = unknown> = Common<Options> & {
  readonly runs?: 'sandbox';
  /** Default: `sandbox`. */
  readonly effect?: ToolEffect;
  /** True if the call never changes the sandbox. Default: false for every call. */
  readonly onlyReads?: (args: Readonly<Record<string, unknown>>) => boolean;
  /** Returns the observation. Errors: `ToolArgumentError`, which becomes a refusal. */
  run(
    args: Arguments,
    sandbox: Sandbox,
    context: ToolContext & { readonly options: Options },
  ): Promise<string | TextWithImages>;
};

/** A tool that runs in the worker's process, in tasks without a sandbox too. */
export type WorkerToolDefinition<Options = unknown> = Common<Options> & {
  readonly runs: 'worker';
  readonly effect: 'none' | 'outside';
  /** Returns the observation. Errors: `ToolArgumentError`, which becomes a refusal. */
  run(
    args: Arguments,
    context: ToolContext & WorkerServices & { readonly options: Options },
  ): Promise<string | TextWithImages>;
};

export type ToolDefinition<Options = unknown> = SandboxToolDefinition<Options> | WorkerToolDefinition<Options>;

export const DEFAULT_MAX_CHARACTERS = 8000;

/** The parameters as one schema, as the policy sees them. */
export function parametersOf({ parameters, required }: Parameters): ObjectSchema {
  return required === undefined ? (parameters as ObjectSchema) : schemaOf(parameters, required);
}

async function answer<Options>(
  definition: ToolDefinition<Options>,
  args: Arguments,
  sandbox: Sandbox | undefined,
  { worker, ...context }: CallContext,
  options: Options,
): Promise<string | TextWithImages> {
  const { name } = definition;
  // A tool that uses no services runs without them.
  if (definition.runs === 'worker') return definition.run(args, { ...context, ...(worker as WorkerServices), options });
  if (sandbox === undefined) throw new TypeError(`${name} runs in a sandbox, and was given none`);
  return definition.run(args, sandbox, { ...context, options });
}

function observed(answered: string | TextWithImages, name: string, mayHaveImages: boolean): Observation & Seen {
  if (typeof answered === 'string') return { content: answered };
  if (!mayHaveImages) throw new TypeError(`${name} returned images: give images: true in its definition`);
  return { content: answered.text, seen: answered.images };
}

function made<Options>(definition: ToolDefinition<Options>, reader: ArgumentReader, options: Options): Tool {
  const { name, description, runs = 'sandbox', effect = 'sandbox', images = false, inOrder = false } = definition;
  const reads = definition.runs === 'worker' ? undefined : definition.onlyReads;
  return {
    schema: { type: 'function', function: { name, description, parameters: parametersOf(definition) } },
    runs,
    effect,
    images,
    inOrder,
    validate(args) {
      try {
        reader.read(args);
        return undefined;
      } catch (error) {
        if (error instanceof ToolArgumentError) return error.message;
        throw error;
      }
    },
    onlyReads: (call) => effect !== 'sandbox' || (reads?.(call.arguments) ?? false),
    async run(call, sandbox, context) {
      try {
        const given = await answer(definition, reader.read(call.arguments), sandbox, context, options);
        return observed(given, name, images);
      } catch (error) {
        if (error instanceof ToolArgumentError) return refusal(error.message);
        throw error;
      }
    },
    check: (field) => definition.check?.(options, field),
    withOptions: (given, field) => {
      const schema = definition.options === undefined ? {} : { options: definition.options };
      return made(definition, reader, resolveOptions({ name, ...schema }, given, field) as Options);
    },
  };
}

/** Makes a tool from its definition. Its options are those that its schema makes of none, until `withOptions`. */
export function makeTool<Options = unknown>(definition: ToolDefinition<Options>): Tool {
  const none = definition.options?.safeParse({});
  return made(
    definition,
    new ArgumentReader(definition.name, parametersOf(definition)),
    (none?.success === true ? none.data : {}) as Options,
  );
}
