/**
 * The sandbox: the isolated machine that a rollout's tools act on. It outlives the worker that made it; every call is
 * journalled inside it, so a call that is asked for twice runs once.
 */

export interface SandboxLimits {
  readonly memoryMiB: number;
  readonly processes: number;
  /** Size of the writable workspace and /tmp together. */
  readonly diskMiB: number;
}

export interface SandboxFile {
  /** Absolute, or relative to `workdir`. */
  readonly path: string;
  readonly content: string | Uint8Array;
  readonly mode?: number;
}

export type SandboxProfile = 'strict' | 'swe';

export interface SandboxSpec {
  /** Unique and deterministic: a second `create` with the same id adopts the sandbox that exists. */
  readonly id: string;
  readonly workdir: string;
  readonly files: readonly SandboxFile[];
  /** Run once, through `/bin/bash -c` in `workdir`, after the files are written; a non-zero exit fails `create`. */
  readonly setup?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly limits: SandboxLimits;
  /** What the sandbox is made of, where the provider has images; default: a base with bash, git and Python. */
  readonly image?: string;
  /** `strict` (default): nothing can be written but the workspace, /tmp and /dev/shm. `swe`: all that the image's own files allow. */
  readonly profile?: SandboxProfile;
  /** Processors that it may use at once, where the provider counts them. */
  readonly cpus?: number;
  /** The sandbox ends itself when nobody has renewed it for so long. */
  readonly ttlSeconds: number;
}

/** What a command did: an observation, never an error of ours. */
export interface ExecResult {
  /** `null` when a signal or a limit on time ended it. */
  readonly exitCode: number | null;
  /** SIGXCPU: it had spent the processor time that it was given. */
  readonly signal: string | null;
  readonly output: string;
  /** Bytes of output dropped from the middle, 0 when complete. */
  readonly droppedBytes: number;
  readonly timedOut: boolean;
  /** The kernel's out-of-memory killer ended something during the call. */
  readonly outOfMemory: boolean;
  readonly durationMs: number;
  /** Processor time of the call; 0 or absent where it was given no limit. */
  readonly cpuMs?: number;
}

export interface ExecCall {
  /** Journal key: a call with an id that is known attaches to it or returns its recorded result. */
  readonly callId: string;
  readonly command: string;
  readonly timeoutMs: number;
  /** Processor time that all it starts may take together, which no other load on the machine adds to. Default: it is not counted. */
  readonly cpuMs?: number;
  /** Bytes of combined output kept (head and tail); the rest is drained and counted. */
  readonly outputLimit: number;
  /** In a new bash in `workdir` instead of the long-lived one, whose state it neither sees nor changes. */
  readonly fresh?: boolean;
  /** As `fresh`, when everything that earlier calls left running, the shell too, has ended. */
  readonly alone?: boolean;
}

export interface WriteCall {
  readonly callId: string;
  readonly path: string;
  readonly content: Uint8Array;
  /** Kept in the journal and returned by a repeated call: the observation that belongs to this write. */
  readonly note: string;
}

export type ReadResult =
  | { readonly kind: 'file'; readonly content: Uint8Array }
  | { readonly kind: 'directory'; readonly entries: readonly string[] }
  | { readonly kind: 'missing' }
  | { readonly kind: 'denied'; readonly reason: string }
  | { readonly kind: 'too-large'; readonly bytes: number };

/** What the long-lived shell would begin anew with. */
export interface ShellState {
  /** Empty before the first call. */
  readonly directory: string;
  /** Exported variables as `declare -px` prints them, after the last call that ended by itself. */
  readonly exports: string;
}

export interface Sandbox {
  readonly id: string;
  /** In the sandbox's one long-lived shell: working directory and variables persist from call to call. */
  exec(call: ExecCall): Promise<ExecResult>;
  /** Writes a regular file (parents are made) with the rights of the sandbox's user; returns the journalled note. */
  write(call: WriteCall): Promise<{ readonly note: string; readonly error?: string }>;
  /** The note of a finished write with this id, if the journal has one. */
  written(callId: string): Promise<{ readonly note: string; readonly error?: string } | undefined>;
  read(path: string, maxBytes: number): Promise<ReadResult>;
  /** The shell's directory and exports. Absent where a sandbox cannot be snapshotted. */
  state?(): Promise<ShellState>;
  /** Begins the shell anew in that state; only while no call runs. */
  resume?(state: ShellState): Promise<void>;
  /** Pushes the time to live forward. */
  renew(ttlSeconds: number): Promise<void>;
  close(): void;
}

export interface SandboxProvider {
  readonly name: string;
  /**
   * What may take long and is not of one sandbox: its image. Afterwards `create` does not wait for it; `hear` gets what
   * is told meanwhile. Errors: those of `create`.
   */
  prepare?(spec: SandboxSpec, hear: (line: string) => void): Promise<void>;
  /** Returns when the sandbox answered a probe. Errors: `SandboxUnavailable`. */
  create(spec: SandboxSpec): Promise<Sandbox>;
  /** Errors: `SandboxLost` when it is gone. */
  connect(id: string): Promise<Sandbox>;
  /** Idempotent; returns when every process of the sandbox is gone. */
  destroy(id: string): Promise<void>;
  /** Ids of the sandboxes on this host, alive or half-made. */
  list(): Promise<string[]>;
  /** Ids of the sandboxes on this host that have ended by themselves (time to live, a crash): only records are left. */
  ended?(): Promise<string[]>;
}

/** The sandbox is gone; what it did so far is in the store. */
export class SandboxLost extends Error {
  override readonly name = 'SandboxLost';
}

/** A sandbox could not be made or reached for now. */
export class SandboxUnavailable extends Error {
  override readonly name = 'SandboxUnavailable';
}

/** What a task or a setting asks for can never be had here: trying again is of no use. */
export class SandboxImpossible extends Error {
  override readonly name = 'SandboxImpossible';
}
