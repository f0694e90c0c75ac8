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
    readonly status: string;
    readonly assertionResults: ReadonlyArray<{ readonly status: string }>;
  }>;
}
export function tallyCheck(exitCode: number): Tally;
export function tallyVitest(report: VitestReport | undefined, exitCode: number): Tally;
export function sum(tallies: readonly Tally[]): Tally;
export function exitCodeOf(total: Tally, env: NodeJS.ProcessEnv): number;
export function lastLine(total: Tally): string;
