/** The languages whose code is read as syntax trees: their files, their grammars, and what defines a name in them. */

/** What a definition is, for readers. */
export type SymbolKind =
  | 'class'
  | 'constant'
  | 'enum'
  | 'function'
  | 'implementation'
  | 'interface'
  | 'macro'
  | 'method'
  | 'module'
  | 'type'
  | 'variable';

export interface Language {
  /** Name of the grammar's file. */
  readonly grammar: string;
  /** Kinds of nodes that define a name. */
  readonly definitions: Readonly<Record<string, SymbolKind>>;
  /** Nodes that define a name only outside of functions: a function's own variables are of no use to a searcher. */
  readonly outer: Readonly<Record<string, SymbolKind>>;
}

const PYTHON: Language = {
  grammar: 'python',
  definitions: { class_definition: 'class', function_definition: 'function' },
  outer: { assignment: 'variable' },
};
const SCRIPT_DEFINITIONS = {
  class_declaration: 'class',
  abstract_class_declaration: 'class',
  function_declaration: 'function',
  generator_function_declaration: 'function',
  method_definition: 'method',
  method_signature: 'method',
  abstract_method_signature: 'method',
  interface_declaration: 'interface',
  type_alias_declaration: 'type',
  enum_declaration: 'enum',
  internal_module: 'module',
} as const;
const SCRIPT_OUTER = {
  variable_declarator: 'variable',
  public_field_definition: 'variable',
  field_definition: 'variable',
} as const;
const script = (grammar: string): Language => ({ grammar, definitions: SCRIPT_DEFINITIONS, outer: SCRIPT_OUTER });
const GO: Language = {
  grammar: 'go',
  definitions: {
    function_declaration: 'function',
    method_declaration: 'method',
    method_elem: 'method',
    type_spec: 'type',
    type_alias: 'type',
  },
  outer: { const_spec: 'constant', var_spec: 'variable' },
};
const RUST: Language = {
  grammar: 'rust',
  definitions: {
    function_item: 'function',
    function_signature_item: 'function',
    struct_item: 'class',
    union_item: 'class',
    enum_item: 'enum',
    trait_item: 'interface',
    impl_item: 'implementation',
    mod_item: 'module',
    type_item: 'type',
    macro_definition: 'macro',
  },
  outer: { const_item: 'constant', static_item: 'variable' },
};
const JAVA: Language = {
  grammar: 'java',
  definitions: {
    class_declaration: 'class',
    record_declaration: 'class',
    interface_declaration: 'interface',
    annotation_type_declaration: 'interface',
    enum_declaration: 'enum',
    method_declaration: 'method',
    constructor_declaration: 'method',
  },
  outer: { variable_declarator: 'variable' },
};
const C: Language = {
  grammar: 'c',
  definitions: {
    function_definition: 'function',
    struct_specifier: 'class',
    union_specifier: 'class',
    enum_specifier: 'enum',
    type_definition: 'type',
    preproc_def: 'macro',
    preproc_function_def: 'macro',
  },
  outer: { init_declarator: 'variable' },
};

const BY_EXTENSION: ReadonlyMap<string, Language> = new Map([
  ['.py', PYTHON],
  ['.pyi', PYTHON],
  ['.ts', script('typescript')],
  ['.mts', script('typescript')],
  ['.cts', script('typescript')],
  ['.tsx', script('tsx')],
  ['.js', script('javascript')],
  ['.mjs', script('javascript')],
  ['.cjs', script('javascript')],
  ['.jsx', script('javascript')],
  ['.go', GO],
  ['.rs', RUST],
  ['.java', JAVA],
  ['.c', C],
  ['.h', C],
]);

/** The extensions of source files, each with its dot. */
export const EXTENSIONS: readonly string[] = [...BY_EXTENSION.keys()];

/** `undefined` if the file's extension is of no language that is known. */
export function languageOf(path: string): Language | undefined {
  return BY_EXTENSION.get(path.slice(path.lastIndexOf('.')).toLowerCase());
}
