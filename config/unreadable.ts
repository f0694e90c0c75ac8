/** Why the file system does not give a file, in words. */

const WHY: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'that is a folder',
  EACCES: 'this user has no permission to read it',
  ENOTDIR: 'a part of its path is not a folder',
};

export interface Unreadable {
  /** Absent: the error does not say it. */
  readonly path?: string;
  readonly why: string;
}

/** `undefined` for an error that is none of the file system's. */
export function unreadable(error: unknown): Unreadable | undefined {
  if (!(error instanceof Error) || !('syscall' in error)) return undefined;
  const { code = error.message, path } = error as NodeJS.ErrnoException;
  return { ...(path !== undefined && { path }), why: WHY[code] ?? code };
}
