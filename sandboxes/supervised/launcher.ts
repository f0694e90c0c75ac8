/** The interface of a kind of sandbox: how one is started, reached and ended. All kinds share everything else. */

import type { ImageChanges } from '../image-changes.ts';
import type { SandboxSpec } from '../sandbox.ts';
import type { Dial } from '../supervisor/connection.ts';
import type { HostLimits } from './spec.ts';

/** `folder`: the folder of one sandbox in the state directory (see `state.ts`). */
export interface Launcher {
  readonly name: string;
  readonly whole: HostLimits;
  /** True if its sandboxes run as another user than this process. */
  readonly asOther: boolean;
  /** Errors: `SandboxImpossible` with the name of a field that this kind of sandbox does not support. */
  check(spec: SandboxSpec): void;
  /** Does the slow work that sandboxes share: it gets the image. Runs before anything of the sandbox exists. */
  prepare?(spec: SandboxSpec, onLine?: (line: string) => void): Promise<void>;
  /**
   * After it returns, the supervisor answers and the sandbox no longer depends on this process. Errors:
   * `SandboxUnavailable`.
   */
  launch(folder: string, spec: SandboxSpec): Promise<void>;
  /** Returns a function that connects to the supervisor. */
  dial(folder: string): Dial;
  /** See `Sandbox.imageChanges`. Absent if sandboxes of this kind have no image of their own, or no such list. */
  imageChanges?: ((folder: string) => Promise<ImageChanges>) | undefined;
  /** Called after the supervisor received its spec. */
  started?(folder: string): void;
  /** Ends every process of the sandbox and removes its folder, also if that was renamed already. Idempotent. */
  end(folder: string): Promise<void>;
  /** Completes the endings that processes started which have since died. */
  finishEndings(): Promise<void>;
  /** Returns the folders whose sandbox has ended by itself. */
  ended(folders: readonly string[]): Promise<string[]>;
}
