/** What differs between kinds of sandboxes: how one is started, reached and ended. Everything else is shared. */

import type { SandboxSpec } from '../sandbox.ts';
import type { Dial } from '../supervisor/connection.ts';
import type { HostLimits } from './spec.ts';

/** A folder is what `state.ts` keeps of one sandbox. */
export interface Launcher {
  readonly name: string;
  readonly whole: HostLimits;
  /** Errors: `SandboxImpossible` that names a field which this kind of sandbox cannot honour. */
  check(spec: SandboxSpec): void;
  /** What may take long and is not of one sandbox: its image. Done before anything of the sandbox exists. */
  prepare?(spec: SandboxSpec, hear?: (line: string) => void): Promise<void>;
  /** When it returns, the supervisor answers, and the sandbox no longer depends on this process. Errors: `SandboxUnavailable`. */
  launch(folder: string, spec: SandboxSpec): Promise<void>;
  /** How the supervisor is spoken to. */
  dial(folder: string): Dial;
  /** Called when the supervisor has its spec. */
  started?(folder: string): void;
  /** Ends every process of the sandbox and removes the folder, under its name or set aside. Idempotent. */
  end(folder: string): Promise<void>;
  /** Goes on with what processes that no longer live began to end. */
  finishEndings(): Promise<void>;
  /** Those of the folders whose sandbox has ended by itself. */
  ended(folders: readonly string[]): Promise<string[]>;
}
