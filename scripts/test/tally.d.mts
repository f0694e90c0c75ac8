export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}
export interface VitestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: ReadonlyArray<{
    /** The file's path. */
    readonly name?: string;
    readonly status: string;
    readonly assertionResults: ReadonlyArray<{ readonly status: string; readonly fullName?: string }>;
  }>;
}
export function tallyCheck(exitCode: number): Tally;
export function tallyVitest(report: VitestReport | undefined, exitCode: number, errors?: number): Tally;
export function sum(tallies: readonly Tally[]): Tally;
export function exitCodeOf(total: Tally, env: NodeJS.ProcessEnv): number;
export function lastLine(total: Tally): string;
