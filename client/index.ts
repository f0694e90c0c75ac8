/** The exports of the package `longhaul`. */

export { Longhaul } from './longhaul.ts';
export { EvalHandle } from './durable-handle.ts';
export { type Begun, ExternalRollout, ReportRefused, type Turn } from './external-rollout.ts';
export { RunHandle } from './run-handle.ts';
export { StepsMissed } from './new-steps.ts';
export { Unreachable, WrongStack } from './errors.ts';
export type { RunSettings } from '../config/run-config.ts';
export type { EvalSettings } from '../config/sweep-config.ts';
export type { CellHeadline, Estimate, SweepResult, SweepStatus } from '../protocol/eval.ts';
export type { ConnectOptions } from './connect.ts';
export { z } from 'zod';
export { defineEnvironment } from '../tasks/registry.ts';
export { BadRecord } from '../tasks/data/bad-record.ts';
export { readRecords, type Records } from '../tasks/data/read-records.ts';
export { openRecords, recordOptions } from '../tasks/data/record-options.ts';
export { recordsDataset, type RecordTable } from '../tasks/data/records-dataset.ts';
export { fairAnswer, type FairQuestion } from '../tasks/fair-question.ts';
export { type AgentProgram, type AgentType, defineAgent, type TurnView } from '../agents/agent.ts';
export { defineTool } from '../agents/tools/registry.ts';
export { ToolArgumentError } from '../agents/tools/schema/arguments.ts';
export { defineAdvantage } from '../trainer/algorithms/advantages/registry.ts';
export { defineBackend } from '../trainer/backends/registry.ts';
export type {
  BackendAbilities,
  BackendDefinition,
  PassAnswer,
  PolicyDescription,
  SampleAnswer,
  SampleRequest,
  SamplingOption,
  SavedState,
  ScoredSequence,
  StateToOpen,
  StateToSave,
  TrainingPass,
  TrainingSequence,
} from '../trainer/backends/definition.ts';
export { defineLoss } from '../trainer/algorithms/losses/registry.ts';
export type {
  AdvantageEstimator,
  AdvantageSettings,
  TokenAdvantages,
  TokenRewards,
} from '../trainer/algorithms/advantages/estimator.ts';
export type { PolicyLossDefinition, PolicyTokens, TokenTerms } from '../trainer/algorithms/losses/loss.ts';
export type { LossSettings } from '../protocol/algorithm.ts';
export type { Arguments, ToolParameter, ToolParameters } from '../agents/tools/schema/arguments.ts';
export type { ImageRef } from '../protocol/image.ts';
export type { Message, ToolCall, ToolSchema } from '../protocol/message.ts';
export type { McpHttpServer, McpSandboxServer, McpServer } from '../agents/mcp/server.ts';
export type {
  Observation,
  Tool,
  ToolContext,
  ToolDefinition,
  TextWithImages,
  ToolEffect,
  WorkerServices,
} from '../agents/tools/tool.ts';
export type { ToolChoice } from '../agents/tools/toolbox.ts';
export type {
  Dataset,
  Environment,
  EnvironmentIo,
  HubFile,
  Resources,
  SandboxRequest,
  StepResult,
  Task,
  TaskContext,
  Work,
} from '../tasks/environment.ts';
export type { ReportAnswer, ReportedTokens } from '../protocol/program.ts';
export type { AgentChoice, Verdict } from '../protocol/stages.ts';
export type { Command, Delegate } from '../protocol/command.ts';
export type { Said } from '../protocol/transcript.ts';
export type { SubAgent } from '../agents/sub-agents.ts';
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
export type { RolloutInput, RolloutResult } from '../protocol/rollout.ts';
export type { RunConfig } from '../protocol/run-config.ts';
export type { StepRecord } from '../protocol/step-record.ts';
export type { TrainStatus } from '../protocol/train-status.ts';
