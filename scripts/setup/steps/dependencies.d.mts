export interface LockFile {
  readonly packages: Readonly<
    Record<
      string,
      {
        readonly name?: string;
        readonly os?: readonly string[];
        readonly version?: string;
        readonly integrity?: string;
        readonly optional?: boolean;
      }
    >
  >;
}
export function installDependencies(root: string): Promise<string>;
export function differences(root: string, lock: LockFile): string[];
