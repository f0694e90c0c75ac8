import type { Tally, VitestReport } from './tally.mjs';

export interface FailedTest {
  readonly file: string;
  readonly name: string;
}

export declare const MOST_SECOND_TRIES: number;
export declare function secondTriesOf(report: VitestReport | undefined, root: string): FailedTest[];
export declare function patternOf(name: string): string;
export declare function passedAlone(report: VitestReport | undefined, exitCode: number): boolean;
export declare function withSecondTries(tally: Tally, count: number): Tally;
