/** What `import … from 'longhaul'` gives. */

export { Longhaul } from './longhaul.ts';
export { EvalHandle } from './eval-handle.ts';
export { RunHandle } from './run-handle.ts';
export { StepsMissed } from './steps/new-steps.ts';
export { Unreachable, WrongStack } from './errors.ts';
export type { RunSettings } from '../activities/run/run-config.ts';
export type { EvalSettings } from '../activities/evaluation/sweep/sweep-config.ts';
export type { CellHeadline, Estimate, SweepResult, SweepStatus } from '../workflows/messages/eval.ts';
export type { ConnectOptions } from './connect.ts';
export { defineTask } from '../tasks/registry.ts';
export { defineTool } from '../agents/tools/registry.ts';
export { ToolArgumentError } from '../agents/tools/arguments.ts';
export { defineAdvantage } from '../trainer/algorithms/advantages/registry.ts';
export { defineLoss } from '../trainer/algorithms/losses/registry.ts';
export type {
  AdvantageEstimator,
  AdvantageSettings,
  TokenAdvantages,
  TokenRewards,
} from '../trainer/algorithms/advantages/estimator.ts';
export type { PolicyLossDefinition, PolicyTokens, TokenTerms } from '../trainer/algorithms/losses/loss.ts';
export type { LossSettings } from '../trainer/algorithms/losses/settings.ts';
export type { Arguments, ToolParameter, ToolParameters } from '../agents/tools/arguments.ts';
export type { Message, ToolCall, ToolSchema } from '../agents/message.ts';
export type { Observation, Tool, ToolContext, ToolDefinition } from '../agents/tools/tool.ts';
export type { Environment, Split, Task, Verdict } from '../tasks/task.ts';
export type {
  ExecCall,
  ExecResult,
  ReadResult,
  Sandbox,
  SandboxFile,
  SandboxLimits,
  SandboxProfile,
  SandboxProvider,
  SandboxSpec,
  WriteCall,
} from '../sandboxes/sandbox.ts';
export type { RolloutInput, RolloutResult } from '../workflows/messages/rollout.ts';
export type { RunConfig } from '../workflows/messages/run-config.ts';
export type { StepRecord } from '../workflows/messages/step-record.ts';
export type { TrainStatus } from '../workflows/messages/train-status.ts';
