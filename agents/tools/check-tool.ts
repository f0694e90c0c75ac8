/** Checks a custom tool when it is defined, so that every call's arguments can be checked against its parameters. */

import { Definition } from '../../modules/check-definition.ts';

/** Function names that OpenAI's API accepts. */
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const TYPES = ['string', 'integer', 'number', 'boolean', 'array'];

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function checkParameter(definition: Definition, path: string, parameter: unknown): void {
  if (!isObject(parameter)) throw definition.refused(path, parameter, 'give { type, description }');
  const { type, description, enum: values, items } = parameter;
  if (typeof type !== 'string' || !TYPES.includes(type))
    throw definition.refused(`${path}.type`, type, `give one of ${TYPES.join(', ')}`);
  if (typeof description !== 'string') throw definition.refused(`${path}.description`, description, 'give a text');
  const isWholeList = isObject(items) && items['type'] === 'integer';
  if (type === 'array' && !isWholeList)
    throw definition.refused(`${path}.items`, items, "give { type: 'integer' }: lists hold whole numbers");
  const areTexts = Array.isArray(values) && values.length > 0 && values.every((value) => typeof value === 'string');
  if (values !== undefined && (type !== 'string' || !areTexts))
    throw definition.refused(`${path}.enum`, values, "give texts, with type: 'string'; or leave it out");
}

/** Errors: `DefinitionRefused`. */
export function checkTool(given: unknown): void {
  const definition = new Definition('defineTool', given, NAME, 'give letters, digits, dash and underscore, at most 64');
  definition.text('description');
  definition.functions(['run'], ['onlyReads']);
  const [parameters, required] = [definition.member('parameters'), definition.member('required')];
  if (!isObject(parameters))
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
