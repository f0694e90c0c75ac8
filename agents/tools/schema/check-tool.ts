/** Checks a custom tool when it is defined, so that every call's arguments can be checked against its parameters. */

import { Definition } from '../../../modules/check-definition.ts';
import { ArgumentReader } from './arguments.ts';
import { isSchema, type ObjectSchema } from './json-schema.ts';
import { parametersOf, type ToolDefinition } from '../tool.ts';

/** Function names that OpenAI's API accepts. */
export const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const TYPES = ['string', 'integer', 'number', 'boolean', 'array', 'object', 'null'];

function checkParameter(definition: Definition, path: string, parameter: unknown): void {
  if (!isSchema(parameter)) throw definition.refused(path, parameter, 'give { type, description }');
  const { type, description, enum: values } = parameter;
  if (typeof type === 'string' && !TYPES.includes(type))
    throw definition.refused(`${path}.type`, type, `give one of ${TYPES.join(', ')}`);
  if (typeof description !== 'string') throw definition.refused(`${path}.description`, description, 'give a text');
  const areTexts = Array.isArray(values) && values.length > 0 && values.every((value) => typeof value === 'string');
  if (values !== undefined && type === 'string' && !areTexts)
    throw definition.refused(`${path}.enum`, values, "give texts, with type: 'string'; or leave it out");
}

/** A whole schema has a text as its `type`; of parameters by name each is an object, also one that is named `type`. */
const isWhole = (parameters: unknown): parameters is ObjectSchema =>
  isSchema(parameters) && parameters['type'] === 'object';

function checkParameters(definition: Definition): void {
  const [parameters, required] = [definition.member('parameters'), definition.member('required')];
  if (isWhole(parameters)) {
    if (required === undefined) return;
    throw definition.refused('required', required, 'leave it out: the schema in parameters has its own');
  }
  if (!isSchema(parameters))
    throw definition.refused('parameters', parameters, 'give an object of parameters by name ({} for none)');
  for (const [name, parameter] of Object.entries(parameters))
    checkParameter(definition, `parameters.${name}`, parameter);
  if (!Array.isArray(required))
    throw definition.refused('required', required, 'give a list of names of parameters ([] for none)');
  const stranger = required.find((name) => typeof name !== 'string' || !Object.hasOwn(parameters, name)) as unknown;
  if (stranger !== undefined)
    throw definition.refused(
      'required',
      required,
      `name only existing parameters (${Object.keys(parameters).join(', ') || 'none'})`,
    );
}

function checkPlace(definition: Definition): void {
  const [runs, effect, options] = ['runs', 'effect', 'options'].map((name) => definition.member(name));
  if (runs !== undefined && runs !== 'sandbox' && runs !== 'worker')
    throw definition.refused('runs', runs, 'give sandbox or worker');
  const effects = runs === 'worker' ? ['none', 'outside'] : ['none', 'sandbox', 'outside'];
  const isOne = typeof effect === 'string' && effects.includes(effect);
  if (!isOne && (effect !== undefined || runs === 'worker'))
    throw definition.refused('effect', effect, `give ${effects.join(' or ')}`);
  if (runs === 'worker' && definition.member('onlyReads') !== undefined)
    throw definition.refused('onlyReads', definition.member('onlyReads'), 'leave it out: effect says it');
  const images = definition.member('images');
  if (images !== undefined && typeof images !== 'boolean')
    throw definition.refused('images', images, 'give true or false, or leave it out');
  if (options !== undefined && typeof (options as { readonly safeParse?: unknown }).safeParse !== 'function')
    throw definition.refused('options', options, 'give a zod schema, or leave it out');
}

/** Errors: `DefinitionRefused`. */
export function checkTool(given: unknown): void {
  const definition = new Definition(
    'defineTool',
    given,
    TOOL_NAME,
    'give letters, digits, dash and underscore, at most 64',
  );
  definition.text('description');
  definition.functions(['run'], ['onlyReads']);
  checkParameters(definition);
  checkPlace(definition);
  const tool = given as ToolDefinition;
  const { unchecked } = new ArgumentReader(tool.name, parametersOf(tool));
  if (unchecked !== undefined)
    throw definition.refused(
      'parameters',
      tool.parameters,
      `give a schema that calls can be checked against: ${unchecked}. What it cannot say, run may check (args.wrong)`,
    );
}
