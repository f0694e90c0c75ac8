/** What `import … from 'longhaul'` gives. */

export { Longhaul } from './longhaul.ts';
export { EvalHandle } from './eval-handle.ts';
export { RunHandle } from './run-handle.ts';
export type { EvalSettings } from '../activities/evaluation/sweep/sweep-config.ts';
export type { CellHeadline, Estimate, SweepResult, SweepStatus } from '../workflows/messages/eval.ts';
export type { ConnectOptions } from './connect.ts';
export { defineTask } from '../tasks/registry.ts';
export { defineTool } from '../agents/tools/tool.ts';
export { defineAdvantage } from '../trainer/algorithms/advantages/registry.ts';
export { defineLoss } from '../trainer/algorithms/losses/registry.ts';
export type { AdvantageEstimator, AdvantageSettings, TokenAdvantages, TokenRewards } from '../trainer/algorithms/advantages/estimator.ts';
export type { PolicyLossDefinition, PolicyTokens, TokenTerms } from '../trainer/algorithms/losses/loss.ts';
export type { LossSettings } from '../trainer/algorithms/losses/settings.ts';
export type { Environment, Task, Verdict } from '../tasks/task.ts';
export type { Sandbox, SandboxProvider, SandboxSpec } from '../sandboxes/sandbox.ts';
export type { RolloutInput, RolloutResult } from '../workflows/messages/rollout.ts';
export type { RunConfig } from '../workflows/messages/run-config.ts';
export type { StepRecord } from '../workflows/messages/step-record.ts';
export type { TrainStatus } from '../workflows/messages/train-status.ts';
