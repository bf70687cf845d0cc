// Tells what a skill's TypeScript code is, without running it: a function of its input, or a program to be made one.

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

type Schema = { [key: string]: any };
type Import = [server: string, tool: string | null];
type Node = { type: string; start: number; end: number; [key: string]: any };
type Edit = { start: number; end: number; text: string };
type Types = { input: Schema | null; output: Schema | null };
type Found = Types & { form: 'function' | 'program'; code: string; defaults: { [name: string]: unknown } };

const REQUEST = process.env.SKILL_REQUEST ?? '/workspace/in/request.json';
const TSC = process.env.CODE_EXECUTOR_TSC ?? '/opt/check/typescript/tsc';
// Without the types of Node.js and of packages, which take longer to read than the skill: all of them may be anything.
const TSC_OPTIONS = [
  ...['--ignoreConfig', '--declaration', '--emitDeclarationOnly', '--noCheck', '--skipLibCheck', '--pretty', 'false'],
  ...['--strict', 'false', '--strictNullChecks', '--singleThreaded', '--target', 'esnext', '--lib', 'esnext'],
  ...['--types', '', '--moduleDetection', 'force', '--module', 'esnext', '--moduleResolution', 'bundler'],
  ...['--allowImportingTsExtensions', '--rootDir', '/'],
];
const TSC_TIMEOUT_MS = 20_000;
const EXAMINATION_TIMEOUT_MS = 60_000;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MAX_DECLARATION_CHARACTERS = 512 * 1024;
const MAX_PARTS = 1000; // of a schema, whose aliases may double each other
const INSIDE = 'inside'; // the argument of the process that reads the code, whose crash is an answer, too

const CLIENT_LIBRARY = new Set(['discovery', 'errors', 'content', 'output']);
const MUST_LOG =
  'The program must end with console.log(VALUE): what it prints last becomes the result. A function that takes the ' +
  'input must be the default export: `export default async function run(input)`.';
const EXITS = ['exit', 'abort']; // of the process
const MUST_NOT_EXIT =
  'cannot stay when the program becomes a function: let every path reach the console.log at the end, ' +
  'or throw an error if it fails.';
const MUST_NOT_RETURN = 'must not return before the console.log at its end, which gives the result: use if and else.';
const WRITE_FUNCTION = 'Write it as `export default async function run(input) { … }` that returns the result.';
const MORE_THAN_TYPES =
  'A program with an enum, a namespace, a parameter property or a <T>cast cannot be turned into a function.';
const TOO_DEEP = 'The code is nested too deeply to be read: split it up.';

class Problem extends Error {
  constructor(message: string, line?: number) {
    super(line === undefined ? message : `Line ${line}: ${message}`);
  }
}

// --- Syntax ----------------------------------------------------------------------------------------------------------

/** The code, as JavaScript with the same positions unless it was transformed, and its syntax tree. */
class Source {
  readonly code: string;
  readonly js: string;
  readonly body: Node[];
  readonly transformed: string | undefined; // why positions differ

  constructor(code: string) {
    this.code = code;
    try {
      this.js = stripTypeScriptTypes(code, { mode: 'strip' });
      if (this.js.length !== code.length) this.transformed = WRITE_FUNCTION;
    } catch (error: any) {
      if (error?.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw syntaxProblem(error);
      this.transformed = new Problem(`${MORE_THAN_TYPES} ${WRITE_FUNCTION}`, lineIn(error)).message;
      this.js = this.#transform();
    }
    this.body = parse(this.js);
  }

  #transform(): string {
    try {
      return stripTypeScriptTypes(this.code, { mode: 'transform' });
    } catch (error) {
      throw syntaxProblem(error);
    }
  }

  lineOf(node: Node): number | undefined {
    return this.transformed === undefined ? this.code.slice(0, node.start).split('\n').length : undefined;
  }

  problem(message: string, node?: Node): Problem {
    return new Problem(message, node && this.lineOf(node));
  }

  /** The last statement that does something when its turn comes. */
  get last(): Node | undefined {
    const doesNothing = ({ type, declaration }: Node) =>
      type === 'EmptyStatement' || type === 'ImportDeclaration' || (type.startsWith('Export') && !declaration);
    return this.body.findLast((node) => !doesNothing(node));
  }
}

/** Parses with the parser that Node.js has for its own use. */
function parse(js: string): Node[] {
  const acorn = createRequire(import.meta.url)('internal/deps/acorn/acorn/dist/acorn');
  try {
    const options = { sourceType: 'module', ecmaVersion: 'latest', allowAwaitOutsideFunction: true };
    return acorn.parse(js, options).body;
  } catch (error: any) {
    if (!(error instanceof SyntaxError)) throw error;
    const { loc } = error as unknown as { loc?: { line: number } };
    const message = error.message.replace(/ \(\d+:\d+\)$/, '');
    throw new Problem(`The code must be valid TypeScript, but has a syntax error: ${message}.`, loc?.line);
  }
}

/** Reads the line from what Node.js puts before the trace of a syntax error. */
function lineIn(error: any): number | undefined {
  const line = /^[^\n]*:(?<line>\d+)\n/.exec(String(error?.stack))?.groups?.line;
  return line === undefined ? undefined : Number(line);
}

function syntaxProblem(error: any): Problem {
  if (error?.code !== 'ERR_INVALID_TYPESCRIPT_SYNTAX') return new Problem(TOO_DEEP);
  const message = String(error.message).replace(/\.$/, '');
  return new Problem(`The code must be valid TypeScript, but has a syntax error: ${message}.`, lineIn(error));
}

const isNode = (value: any): value is Node => typeof value?.type === 'string' && typeof value.start === 'number';

/** Goes through a tree, outer nodes first, in the order of the code. */
function* walk(...roots: Node[]): Generator<Node> {
  const waiting = roots.reverse();
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    yield node;
    for (const child of childrenOf(node).reverse()) waiting.push(child);
  }
}

/** Goes through everything that is not inside of a function. */
function* walkScope(root: Node): Generator<Node> {
  const waiting = [root];
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    yield node;
    if (!isFunction(node)) for (const child of childrenOf(node).reverse()) waiting.push(child);
  }
}

const childrenOf = (node: Node): Node[] =>
  Object.values(node).flat().filter(isNode).sort((a, b) => a.start - b.start);

const isFunction = (node?: Node | null): boolean =>
  ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'].includes(node?.type ?? '');

const declarationOf = (node: Node): Node =>
  node.type === 'ExportNamedDeclaration' ? (node.declaration ?? node) : node;

/** Finds the function that a name stands for at the top level. */
function functionNamed(source: Source, name: string): Node | undefined {
  for (const declaration of source.body.map(declarationOf)) {
    if (declaration.type === 'FunctionDeclaration' && declaration.id?.name === name) return declaration;
    if (declaration.type !== 'VariableDeclaration') continue;
    for (const { id, init } of declaration.declarations) if (id.name === name && isFunction(init)) return init;
  }
  return undefined;
}

// --- Functions -------------------------------------------------------------------------------------------------------

/** Returns the function that the code exports, and what must be added for it to be the default. */
function exported(source: Source): { run: Node; added: string } | undefined {
  const exportsDefault = source.body.find(({ type }) => type === 'ExportDefaultDeclaration');
  const lists = source.body.filter(({ type, source: from }) => type === 'ExportNamedDeclaration' && !from);
  const specifiers: Node[] = lists.flatMap((node) => node.specifiers);
  const renamed = specifiers.find((each) => (each.exported.name ?? each.exported.value) === 'default');
  if (exportsDefault || renamed) {
    const value: Node = exportsDefault?.declaration ?? renamed?.local;
    const run = value.type === 'Identifier' ? functionNamed(source, value.name) : value;
    if (!run || !isFunction(run)) {
      throw source.problem(`\`export default\` must be a function. ${WRITE_FUNCTION}`, value);
    }
    return { run, added: '' };
  }
  const names = lists.flatMap(({ declaration }) => declared(declaration));
  const isExported = names.includes('run') || specifiers.some((each) => each.exported.name === 'run');
  const run = isExported ? functionNamed(source, 'run') : undefined;
  return run && { run, added: '\nexport default run;' };
}

function declared(declaration?: Node | null): string[] {
  if (!declaration) return [];
  const { declarations } = declaration;
  return declarations ? declarations.map(({ id }: Node) => id.name) : [declaration.id?.name];
}

function examineFunction(source: Source, run: Node, added: string): Found {
  if (run.generator) throw source.problem('The function must return its result, not yield it: remove the `*`.', run);
  if (run.params.length > 1) throw source.problem('The function must take exactly one parameter, the input.', run);
  const code = source.code + added;
  return { form: 'function', code, ...typesOf(code), defaults: {} };
}

// --- Programs --------------------------------------------------------------------------------------------------------

/** A program that is made a function by moving its text, which otherwise stays as it was written. */
class Program {
  readonly #source: Source;
  readonly #edits: Edit[] = [];
  readonly #argument: string;
  #end: number; // of what is kept

  constructor(source: Source) {
    this.#source = source;
    this.#end = source.code.length;
    const used = new Set<string>();
    for (const { type, name } of walk(...source.body)) if (type === 'Identifier') used.add(name);
    this.#argument = 'input';
    while (used.has(this.#argument)) this.#argument += '_';
  }

  asFunction(parameters: string[]): Found {
    const { transformed } = this.#source;
    this.#returnLast();
    if (transformed !== undefined) throw new Problem(transformed);
    this.#requireNoExits();
    const { defaults, properties, types } = this.#takeParameters(parameters);
    this.#removeExports();
    const code = this.#write(types);
    try {
      parse(stripTypeScriptTypes(code, { mode: 'strip' }));
    } catch (error: any) {
      const why = error instanceof Problem ? 'it would not be valid TypeScript' : String(error.message);
      throw new Problem(`The program cannot be turned into a function: ${why}. ${WRITE_FUNCTION}`);
    }
    const input = { type: 'object', properties, additionalProperties: false };
    return { form: 'program', code, input, output: null, defaults };
  }

  // What is returned.

  #returnLast(): void {
    const last = this.#source.last;
    if (last?.type !== 'ExpressionStatement') throw this.#source.problem(MUST_LOG, last);
    if (isConsoleLog(last.expression)) return this.#returnPrinted(last);
    let call: Node = last.expression;
    if (call.type === 'AwaitExpression' || call.operator === 'void') call = call.argument;
    // A function's caller hears of errors.
    while (call.type === 'CallExpression' && nameOfMember(call.callee) === 'catch') call = call.callee.object;
    const isPlain = call.type === 'CallExpression' && call.arguments.length === 0;
    const main = isPlain ? this.#functionOf(call.callee) : undefined;
    if (main?.body.type !== 'BlockStatement') throw this.#source.problem(MUST_LOG, last);
    const printing: Node | undefined = main.body.body.at(-1);
    if (printing?.type !== 'ExpressionStatement' || !isConsoleLog(printing.expression)) {
      throw this.#source.problem(`${MUST_LOG} So must the function that it calls last.`, printing ?? main);
    }
    this.#returnPrinted(printing);
    this.#requireNoReturns(main, call.callee);
    this.#forgetTypeOfResult(main);
    this.#edit(last.start, call.start, 'return await ');
    this.#edit(call.end, last.end, ';');
    this.#end = call.end;
  }

  #requireNoReturns(main: Node, callee: Node): void {
    const found = walkScope(main.body).find(({ type }) => type === 'ReturnStatement');
    const name = callee.name ?? callee.id?.name;
    const told = name ? `\`${name}\`` : 'The function that the program calls last';
    if (found) throw this.#source.problem(`${told} ${MUST_NOT_RETURN}`, found);
  }

  #requireNoExits(): void {
    const { body } = this.#source;
    const exits = new Set([...EXITS.map((name) => `process.${name}`), ...body.flatMap(importedExits)]);
    for (const node of walk(...body)) takenExits(node).forEach((name) => exits.add(name));
    for (const { type, start, callee } of walk(...body)) {
      if (type !== 'CallExpression' || start >= this.#end) continue;
      const name = callee.name ?? `${callee.object?.name}.${nameOfMember(callee)}`;
      if (exits.has(name)) throw this.#source.problem(`\`${name}()\` ${MUST_NOT_EXIT}`, callee);
    }
  }

  #functionOf(callee: Node): Node | undefined {
    if (callee.type === 'Identifier') return functionNamed(this.#source, callee.name);
    return isFunction(callee) ? callee : undefined;
  }

  #forgetTypeOfResult(main: Node): void {
    const { js } = this.#source;
    const close = js.lastIndexOf(')', main.body.start);
    const between = js.slice(close + 1, main.body.start);
    if (close > main.start && /^[\s\ufeff]*(?:=>)?[\s\ufeff]*$/.test(between)) {
      this.#edit(close + 1, main.body.start, between.includes('=>') ? ' => ' : ' ');
    }
  }

  #returnPrinted(statement: Node): void {
    const call: Node = statement.expression;
    const [value] = call.arguments;
    if (call.arguments.length !== 1 || value.type === 'SpreadElement') {
      throw this.#source.problem(`${MUST_LOG} Print exactly one value.`, statement);
    }
    this.#edit(statement.start, statement.end, `return ${this.#result(call, value)};`);
  }

  /** Writes what is returned for a printed value; of what is printed as JSON, the value that it was made of. */
  #result(call: Node, value: Node): string {
    const isJson = value.type === 'CallExpression' && isMember(value.callee, 'JSON', 'stringify');
    const [written, replacer]: Node[] = isJson ? value.arguments : [];
    if (!written || written.type === 'SpreadElement') return this.#firstArgument(call);
    const isKept = !replacer || replacer.raw === 'null' || replacer.name === 'undefined';
    return isKept ? this.#firstArgument(value) : `JSON.parse(${this.#firstArgument(call)})`;
  }

  /** Returns the text of a call's first argument, with the types around it. */
  #firstArgument(call: Node): string {
    const { code, js } = this.#source;
    const [first]: Node[] = call.arguments;
    const start = this.#find('(', call.callee.end) + 1;
    const comma = this.#find(',', first.end);
    const end = comma === -1 ? call.end - 1 : Math.min(comma, call.end - 1);
    const isAlone = js.slice(start, first.start).trim() === '' && js.slice(first.end, end).trim() === '';
    const text = code.slice(start, end);
    return isAlone ? text.trim() : `(\n${text}\n)`; // with comments, which may end only with the line
  }

  /** Returns where a mark comes next that is not inside of a comment. */
  #find(mark: '(' | ',', from: number): number {
    const marks = this.#source.js.slice(from).matchAll(/\/\/[^\n]*|\/\*[\s\S]*?\*\/|[(,]/g);
    const found = marks.find(([text]) => text === mark);
    return found ? from + found.index : -1;
  }

  // What is given.

  #takeParameters(names: string[]): { defaults: { [name: string]: unknown }; properties: Schema; types: string[] } {
    const defaults: [string, unknown][] = [];
    const properties: [string, Schema][] = [];
    const types: string[] = [];
    for (const name of new Set(names)) {
      const declarator = this.#declaratorOf(name);
      const value = literal(declarator.init);
      if (value === undefined) {
        const kinds = 'a text, a number, true, false, null, or an array or object of these';
        throw this.#source.problem(`\`${name}\` must be assigned a literal, to be a parameter: ${kinds}.`, declarator);
      }
      const { schema, type } = this.#typeOf(declarator, value);
      const { start, end } = declarator.init;
      const given = `${this.#argument}.${name}`;
      // The literal comes last, because `as const` may follow it.
      this.#edit(start, end, `${given} !== undefined ? ${given} : ${this.#source.code.slice(start, end)}`);
      defaults.push([name, value]);
      properties.push([name, { ...schema, default: value }]);
      types.push(`${name}?: ${type}`);
    }
    return { defaults: Object.fromEntries(defaults), properties: Object.fromEntries(properties), types };
  }

  #declaratorOf(name: string): Node {
    const variables = this.#source.body.map(declarationOf).filter(({ type }) => type === 'VariableDeclaration');
    const declarators: Node[] = variables.flatMap(({ declarations }) => declarations);
    const found = declarators.filter(({ id }) => id.name === name);
    if (!found[0]?.init) {
      throw this.#source.problem(`\`${name}\` must be a variable that the program assigns at its top level.`, found[0]);
    }
    const again = found[1] ?? [...walk(...this.#source.body)].find((node) => assigns(node, name));
    if (again) throw this.#source.problem(`\`${name}\` must be assigned only once, to be a parameter.`, again);
    return found[0];
  }

  /** Takes the type that was declared if it needs no other type, which would be inside of the function. */
  #typeOf({ id, init }: Node, value: unknown): { schema: Schema; type: string } {
    const { code, js } = this.#source;
    const end = js.lastIndexOf('=', init.start);
    const declared = code.slice(id.end, end).replace(/^[\s!]*:/, '').trim();
    if (!declared) return { schema: schemaOf(value), type: typeTextOf(value) };
    const names = declared.replace(/'[^']*'|"[^"]*"/g, '').match(/[\p{ID_Start}$_][\p{ID_Continue}$]*/gu) ?? [];
    const isBuiltIn = names.every((name) => BUILT_IN_TYPES.has(name)) && !/[`/]/.test(declared);
    if (!isBuiltIn) return { schema: schemaOf(value), type: 'any' };
    const schema = new Declarations(declared).schemaOfText();
    return { schema: Object.keys(schema).length > 0 ? schema : schemaOf(value), type: declared };
  }

  // The text.

  #edit(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text });
  }

  #removeExports(): void {
    const { code } = this.#source;
    for (const node of this.#source.body) {
      if (!/^Export(?:Named|All)Declaration$/.test(node.type)) continue;
      const keyword = /^export\s*/.exec(code.slice(node.start, node.end))?.[0] ?? '';
      this.#edit(node.start, node.declaration ? node.start + keyword.length : node.end, '');
    }
    const lists = /\bexport\s+type\s*(?:\{[^}]*\}|\*[^;'"]*)(?:\s*from\s*(?:'[^']*'|"[^"]*"))?;?/g;
    const keywords = /\bexport\s+(?=type\s+[\p{ID_Start}$_]|(?:interface|declare|abstract)\b)/gu;
    for (const { start, end } of [...this.#erased(lists), ...this.#erased(keywords)]) this.#edit(start, end, '');
  }

  /** Finds what is between the statements and is gone without its types. */
  #erased(pattern: RegExp): Edit[] {
    const { code, js, body } = this.#source;
    const found: Edit[] = [];
    for (const [index, start] of [0, ...body.map(({ end }) => end)].entries()) {
      const end = body[index]?.start ?? code.length;
      for (const match of code.slice(start, end).matchAll(pattern)) {
        const at = start + match.index;
        const text = match[0];
        if (js.slice(at, at + text.length).trim() === '') found.push({ start: at, end: at + text.length, text });
      }
    }
    return found;
  }

  /** Leaves the imports at the beginning where they are, moves others there, and puts the rest into a function. */
  #write(types: string[]): string {
    const { code, js, body } = this.#source;
    const values = body.filter(({ type }) => type === 'ImportDeclaration');
    const onlyTypes = this.#erased(/\bimport\s+type\b[^;'"]*?\bfrom\s*(?:'[^']*'|"[^"]*")(?:\s*with\s*\{[^}]*\})?;?/g);
    const imports: { start: number; end: number }[] = [...values, ...onlyTypes].sort((a, b) => a.start - b.start);

    let limit = body.find(({ type }) => type !== 'ImportDeclaration')?.start ?? code.length;
    const isInImport = (at: number) => imports.some(({ start, end }) => start <= at && at < end);
    for (let at = 0; at < limit; at += 1) if (code[at] !== js[at] && !isInImport(at)) limit = at;
    const leading = imports.filter(({ end }) => end <= limit).at(-1);
    const rest = leading ? (/^[ \t]*(?:\/\/[^\n]*)?(?:\n|$)/.exec(code.slice(leading.end))?.[0] ?? '') : '';
    const shebang = /^#![^\n]*/.exec(code)?.[0] ?? '';
    const cut = leading ? leading.end + rest.length : shebang.length;

    const moved = imports.filter(({ start }) => start >= cut);
    const head = [code.slice(0, cut).trim(), ...moved.map(({ start, end }) => code.slice(start, end))].filter(Boolean);
    const edits = [...this.#edits, ...moved.map(({ start, end }) => ({ start, end, text: '' }))];
    const text = edited(code, cut, edits).replace(/^(?:[ \t]*\r?\n)+/, '').trimEnd();
    const isTaken = values.some(({ start, end }) => /\brun\b/.test(code.slice(start, end)));
    const type = types.length > 0 ? `{ ${types.join('; ')} }` : '{}';
    const signature = `export default async function${isTaken ? '' : ' run'}(${this.#argument}: ${type})`;
    return `${head.join('\n')}${head.length > 0 ? '\n\n' : ''}${signature} {\n${text}\n}\n`;
  }
}

function edited(code: string, from: number, edits: Edit[]): string {
  const parts: string[] = [];
  let position = from;
  for (const { start, end, text } of edits.sort((a, b) => a.start - b.start || a.end - b.end)) {
    if (start < position) continue;
    parts.push(code.slice(position, start), text);
    position = end;
  }
  return parts.join('') + code.slice(position);
}

function nameOfMember(node: Node): string | undefined {
  if (node.type !== 'MemberExpression') return undefined;
  const name = node.computed ? node.property.value : node.property.name;
  return typeof name === 'string' ? name : undefined;
}

const isMember = (node: Node, object: string, name: string): boolean =>
  nameOfMember(node) === name && node.object.type === 'Identifier' && node.object.name === object;

const isConsoleLog = (node: Node): boolean => node.type === 'CallExpression' && isMember(node.callee, 'console', 'log');

/** Returns what an import lets the program call to end the process. */
function importedExits({ type, source, specifiers }: Node): string[] {
  if (type !== 'ImportDeclaration' || !/^(?:node:)?process$/.test(source.value)) return [];
  const named = specifiers.filter(({ imported }: Node) => !imported || EXITS.includes(imported.name));
  return named.flatMap(({ imported, local }: Node) => (imported ? local.name : EXITS.map((name) => `${local.name}.${name}`)));
}

/** Returns what `const { exit } = process` lets the program call. */
function takenExits({ type, id, init }: Node): string[] {
  if (type !== 'VariableDeclarator' || id.type !== 'ObjectPattern' || init?.name !== 'process') return [];
  return id.properties.filter(({ key }: Node) => EXITS.includes(key?.name)).map(({ value }: Node) => value.name);
}

function assigns(node: Node, name: string): boolean {
  const isAssignment = /^(?:AssignmentExpression|ForInStatement|ForOfStatement)$/.test(node.type);
  if (!isAssignment && node.type !== 'UpdateExpression') return false;
  const target: Node = isAssignment ? node.left : node.argument;
  if (target.type === 'VariableDeclaration' || target.type === 'MemberExpression') return false;
  return [...walk(target)].some((each) => each.type === 'Identifier' && each.name === name);
}

/** Returns the value of a literal that JSON has, too; undefined for anything else. */
function literal(node: Node): unknown {
  if (node.type === 'Literal') {
    const { value, raw } = node;
    if (value === null) return raw === 'null' ? null : undefined;
    return typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value) ? value : undefined;
  }
  if (node.type === 'TemplateLiteral') return node.expressions.length === 0 ? node.quasis[0].value.cooked : undefined;
  if (node.type === 'UnaryExpression') {
    const value = literal(node.argument);
    return node.operator === '-' && typeof value === 'number' ? -value : undefined;
  }
  if (node.type === 'ArrayExpression') {
    const values = node.elements.map((each: Node | null) => (each ? literal(each) : undefined));
    return values.includes(undefined) ? undefined : values;
  }
  if (node.type !== 'ObjectExpression') return undefined;
  const entries: [string, unknown][] = [];
  for (const { type, kind, computed, method, shorthand, key, value } of node.properties) {
    const name = String(key?.name ?? key?.value);
    const isPlain = type === 'Property' && kind === 'init' && !computed && !method && !shorthand;
    const found = isPlain ? literal(value) : undefined;
    if (found === undefined || name === '__proto__') return undefined;
    entries.push([name, found]);
  }
  return Object.fromEntries(entries);
}

/** Infers a schema from a literal: what may be null instead, nobody knows. */
function schemaOf(value: unknown): Schema {
  if (value === null) return {};
  if (!Array.isArray(value)) return { type: typeof value };
  const [first, ...others] = value.map(schemaOf);
  const isUniform = first && others.every((each) => isSame(each, first));
  return isUniform && Object.keys(first).length > 0 ? { type: 'array', items: first } : { type: 'array' };
}

function typeTextOf(value: unknown): string {
  if (value === null) return 'any';
  if (Array.isArray(value)) {
    const [first, ...others] = value.map(typeTextOf);
    return first && others.every((each) => each === first) ? `${first}[]` : 'any[]';
  }
  return typeof value === 'object' ? 'Record<string, any>' : typeof value;
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

// --- Types -----------------------------------------------------------------------------------------------------------

const BUILT_IN_TYPES = new Set([
  ...['string', 'number', 'boolean', 'null', 'undefined', 'any', 'unknown', 'object', 'true', 'false', 'readonly'],
  ...['Array', 'ReadonlyArray', 'Record', 'Partial', 'Readonly'],
]);

/** Lets the compiler declare the skill's types; without it there are none. */
function typesOf(code: string): Types {
  const none = { input: null, output: null };
  if (!existsSync(TSC)) return none;
  const path = join(process.cwd(), `skill_${randomBytes(8).toString('hex')}.ts`);
  const folder = mkdtempSync(join(tmpdir(), 'skill-'));
  try {
    writeFileSync(path, code);
    const limits = { timeout: TSC_TIMEOUT_MS, killSignal: 'SIGKILL' as const };
    const env = { GOGC: '400', GOMEMLIMIT: '400MiB' };
    spawnSync(TSC, [...TSC_OPTIONS, '--outDir', folder, path], { ...limits, env, stdio: 'ignore' });
    const text = readFileSync(join(folder, path.replace(/\.ts$/, '.d.ts')), 'utf8');
    return text.length > MAX_DECLARATION_CHARACTERS ? none : new Declarations(text).typesOfDefault();
  } catch {
    return none; // types only describe
  } finally {
    rmSync(path, { force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

type Signature = { input?: Type; output?: Type };
type Member = { name: string; type: Type; optional: boolean; description: string };
type Type =
  | { kind: 'unknown' }
  | { kind: 'named'; name: string; of: Type[] }
  | { kind: 'literal'; value: string | number | boolean | null }
  | { kind: 'list'; of: Type }
  | { kind: 'tuple'; of: { type: Type; optional: boolean; rest: boolean }[] }
  | { kind: 'object'; members: Member[]; others?: Type; bases: Type[] }
  | { kind: 'union' | 'intersection'; of: Type[] }
  | { kind: 'function'; signature: Signature };

const UNKNOWN: Type = { kind: 'unknown' };
const named = (name: string, ...of: Type[]): Type => ({ kind: 'named', name, of });

type Token = { kind: 'name' | 'string' | 'number' | 'template' | 'mark' | 'end'; text: string; comment: string };

const TOKEN = new RegExp(
  [
    /(?<space>\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/)/,
    /(?<name>#?[\p{ID_Start}$_][\p{ID_Continue}$]*)/u,
    /(?<string>"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*')/,
    /(?<template>`(?:[^`\\]|\\[\s\S])*`)/,
    /(?<number>\d[\w.]*)/,
    /(?<mark>=>|\.\.\.|[\s\S])/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'guy',
);

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let comment = '';
  for (const match of text.matchAll(TOKEN)) {
    const [kind, found] = Object.entries(match.groups ?? {}).find(([, each]) => each !== undefined) ?? ['space', ''];
    if (kind === 'space') {
      if (found.startsWith('/**')) comment = found;
      continue;
    }
    tokens.push({ kind: kind as Token['kind'], text: found, comment });
    comment = '';
  }
  return [...tokens, { kind: 'end', text: '', comment: '' }];
}

/** Reads declarations as the compiler writes them, and types as JSON Schemas; what cannot be told may be anything. */
class Declarations {
  readonly #tokens: Token[];
  readonly #closing = new Map<number, number>(); // where each bracket is closed
  readonly #types = new Map<string, Type>();
  readonly #values = new Map<string, Signature>();
  #default: Signature | string | undefined;
  #at = 0;
  #parts = 0;
  #isOutput = false;

  constructor(text: string) {
    this.#tokens = tokensOf(text);
    const open: number[] = [];
    for (const [index, { kind, text }] of this.#tokens.entries()) {
      if (kind === 'mark' && '([{'.includes(text)) open.push(index);
      if (kind === 'mark' && ')]}'.includes(text)) this.#closing.set(open.pop() ?? -1, index);
    }
  }

  schemaOfText(): Schema {
    try {
      return this.#schema(this.#type(), new Set());
    } catch {
      return {};
    }
  }

  typesOfDefault(): Types {
    while (this.#token.kind !== 'end') {
      const begin = this.#at;
      try {
        this.#statement();
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
      if (this.#at === begin) this.#at += 1;
    }
    const found = typeof this.#default === 'string' ? this.#values.get(this.#default) : this.#default;
    let result = found?.output ?? UNKNOWN;
    while (result.kind === 'named' && /^Promise(?:Like)?$/.test(result.name)) result = result.of[0] ?? UNKNOWN;
    return { input: this.#saying(found?.input ?? UNKNOWN, false), output: this.#saying(result, true) };
  }

  #saying(type: Type, isOutput: boolean): Schema | null {
    this.#parts = 0;
    this.#isOutput = isOutput;
    const schema = this.#schema(type, new Set());
    return Object.keys(schema).length > 0 ? schema : null;
  }

  // Statements.

  get #token(): Token {
    return this.#tokens[this.#at];
  }

  #is(text: string, ahead = 0): boolean {
    const token = this.#tokens[this.#at + ahead];
    return token?.text === text && token.kind !== 'string';
  }

  #take(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#at += 1;
    return true;
  }

  #expect(text: string): void {
    if (!this.#take(text)) throw new SyntaxError(`expected ${text}`);
  }

  #next(): Token {
    this.#at += 1;
    return this.#tokens[this.#at - 1];
  }

  /** Goes behind the bracket that closes the one here. */
  #skip(): void {
    this.#at = (this.#closing.get(this.#at) ?? this.#tokens.length - 2) + 1;
  }

  #statement(): void {
    const isExport = this.#take('export');
    const isDefault = isExport && this.#take('default');
    while (this.#take('declare') || this.#take('abstract')) continue;
    if (isExport && this.#is('{')) return this.#exportList();
    if (this.#take('function')) {
      const name = this.#token.kind === 'name' ? this.#next().text : '';
      this.#typeParameters();
      const signature = this.#signature(':');
      if (name && !this.#values.has(name)) this.#values.set(name, signature);
      if (isDefault) this.#default ??= signature;
    } else if (isDefault && this.#token.kind === 'name' && !this.#is('class') && !this.#is('interface')) {
      this.#default = this.#next().text;
    } else if (this.#is('interface') || this.#is('type') || this.#is('enum')) {
      const keyword = this.#next().text;
      const name = this.#next().text;
      this.#typeParameters();
      this.#types.set(name, this.#declaredType(keyword));
    } else if (this.#take('const')) {
      if (this.#is('enum')) return this.#statement();
      const name = this.#next().text;
      this.#expect(':');
      const type = this.#type();
      if (type.kind === 'function') this.#values.set(name, type.signature);
    } else if (this.#token.kind === 'name') {
      while (!this.#is(';') && !this.#is('{') && this.#at < this.#tokens.length - 1) this.#at += 1;
      if (this.#is('{')) this.#skip();
    }
    this.#take(';');
  }

  #declaredType(keyword: string): Type {
    if (keyword === 'type') {
      this.#expect('=');
      return this.#type();
    }
    if (keyword === 'enum') return this.#enumMembers();
    const bases: Type[] = [];
    if (this.#take('extends')) do bases.push(this.#primary()); while (this.#take(','));
    const type = this.#object();
    return type.kind === 'object' ? { ...type, bases } : type;
  }

  #enumMembers(): Type {
    const values: Type[] = [];
    this.#expect('{');
    while (!this.#take('}')) {
      this.#at += 1;
      values.push(this.#take('=') ? this.#primary() : UNKNOWN);
      this.#take(',');
      if (this.#token.kind === 'end') throw new SyntaxError('an enum without an end');
    }
    return { kind: 'union', of: values };
  }

  #exportList(): void {
    const end = this.#closing.get(this.#at) ?? this.#at;
    for (this.#at += 1; this.#at < end; this.#at += 1) {
      if (this.#is('as', 1) && this.#is('default', 2)) this.#default = this.#token.text;
    }
    this.#at = end + 1;
  }

  // Types.

  #type(): Type {
    if (this.#is('new') || this.#is('abstract')) {
      this.#take('abstract');
      this.#take('new');
      this.#type();
      return UNKNOWN;
    }
    if (this.#is('<') || (this.#is('(') && this.#tokens[(this.#closing.get(this.#at) ?? -2) + 1]?.text === '=>')) {
      this.#typeParameters();
      return { kind: 'function', signature: this.#signature('=>') };
    }
    const type = this.#several('|', () => this.#several('&', () => this.#operand()));
    if (!this.#take('extends')) return type;
    this.#type();
    this.#expect('?');
    this.#type();
    this.#expect(':');
    this.#type();
    return UNKNOWN;
  }

  #several(mark: '|' | '&', each: () => Type): Type {
    this.#take(mark);
    const of = [each()];
    while (this.#take(mark)) of.push(each());
    return of.length === 1 ? of[0] : { kind: mark === '|' ? 'union' : 'intersection', of };
  }

  #operand(): Type {
    if (this.#take('readonly')) return this.#operand();
    if (this.#is('keyof') || this.#is('unique') || this.#is('infer') || this.#is('typeof')) {
      this.#at += 1;
      this.#operand();
      return UNKNOWN;
    }
    let type = this.#primary();
    while (this.#take('[')) {
      if (this.#take(']')) {
        type = { kind: 'list', of: type };
        continue;
      }
      this.#type();
      this.#expect(']');
      type = UNKNOWN;
    }
    return type;
  }

  #primary(): Type {
    if (this.#is('{')) return this.#object();
    if (this.#is('[')) return this.#tuple();
    if (this.#take('(')) {
      const type = this.#type();
      this.#expect(')');
      return type;
    }
    const isNegative = this.#take('-');
    const { kind, text } = this.#next();
    if (kind === 'string') return { kind: 'literal', value: textOf(text) };
    if (kind === 'template') return named('string');
    if (kind === 'number') return numberOf(text, isNegative);
    if (kind !== 'name') throw new SyntaxError(`no type begins with ${text}`);
    if (text === 'true' || text === 'false') return { kind: 'literal', value: text === 'true' };
    if (text === 'null') return { kind: 'literal', value: null };
    const isImport = text === 'import' && this.#is('(');
    if (isImport) this.#skip();
    let isQualified = isImport;
    while (this.#take('.')) {
      this.#at += 1;
      isQualified = true;
    }
    const of = this.#typeArguments();
    if (this.#take('is')) {
      this.#type();
      return named('boolean');
    }
    return isQualified ? UNKNOWN : named(text, ...of);
  }

  #typeArguments(): Type[] {
    const of: Type[] = [];
    if (!this.#take('<')) return of;
    do of.push(this.#type()); while (this.#take(','));
    this.#expect('>');
    return of;
  }

  #typeParameters(): void {
    if (!this.#is('<')) return;
    let depth = 0;
    do {
      depth += Number(this.#is('<')) - Number(this.#is('>'));
      this.#at += 1;
    } while (depth > 0 && this.#token.kind !== 'end');
  }

  /** Reads parameters and, behind the mark, the result; of the parameters, only the first matters. */
  #signature(mark: ':' | '=>'): Signature {
    const end = this.#closing.get(this.#at);
    this.#expect('(');
    if (end === undefined) throw new SyntaxError('parameters without an end');
    let input: Type | undefined;
    if (!this.#is(')') && !this.#is('...')) {
      if (this.#is('{') || this.#is('[')) this.#skip();
      else this.#at += 1;
      this.#take('?');
      if (this.#take(':')) input = this.#type();
    }
    this.#at = end + 1;
    if (!this.#take(mark)) return { input };
    if (this.#is('asserts') && this.#tokens[this.#at + 1]?.kind === 'name') this.#at += 1;
    return { input, output: this.#type() };
  }

  #tuple(): Type {
    this.#expect('[');
    const of: { type: Type; optional: boolean; rest: boolean }[] = [];
    while (!this.#take(']')) {
      const rest = this.#take('...');
      const isLabelled = this.#token.kind === 'name' && (this.#is(':', 1) || (this.#is('?', 1) && this.#is(':', 2)));
      let optional = false;
      if (isLabelled) {
        this.#at += 1;
        optional = this.#take('?');
        this.#expect(':');
      }
      const type = this.#type();
      optional = this.#take('?') || optional;
      of.push({ type, optional, rest });
      if (!this.#take(',') && !this.#is(']')) throw new SyntaxError('a tuple without an end');
    }
    return { kind: 'tuple', of };
  }

  #object(): Type {
    const members: Member[] = [];
    let others: Type | undefined;
    let isMapped = false;
    this.#expect('{');
    while (!this.#take('}')) {
      const { comment } = this.#token;
      while (this.#take('+') || this.#take('-')) continue;
      const isModifier = () => this.#is('readonly') || this.#is('get') || this.#is('set');
      while (isModifier() && !/^[:?(<;,}]$/.test(this.#tokens[this.#at + 1].text)) this.#at += 1;
      let name: string | undefined;
      let isIndex = false;
      if (this.#is('[')) {
        isIndex = this.#is(':', 2);
        isMapped ||= this.#is('in', 2);
        this.#skip();
      } else if (!this.#is('(') && !this.#is('<') && !(this.#is('new') && (this.#is('(', 1) || this.#is('<', 1)))) {
        const { kind, text } = this.#next();
        if (kind === 'end' || kind === 'mark') throw new SyntaxError(`no member begins with ${text}`);
        name = kind === 'string' ? textOf(text) : text;
      } else this.#take('new');
      while (this.#take('+') || this.#take('-')) continue;
      const optional = this.#take('?');
      if (this.#is('(') || this.#is('<')) {
        this.#typeParameters();
        this.#signature(':'); // JSON has no functions
      } else {
        const type = this.#take(':') ? this.#type() : UNKNOWN;
        if (isIndex) others = type;
        else if (name !== undefined) members.push({ name, type, optional, description: descriptionOf(comment) });
      }
      if (!this.#take(';')) this.#take(',');
    }
    return isMapped ? UNKNOWN : { kind: 'object', members, others, bases: [] };
  }

  // Schemas.

  /** Returns the schema of a type that is within the named ones, which it cannot repeat. */
  #schema(type: Type, within: Set<string>): Schema {
    this.#parts += 1;
    if (this.#parts > MAX_PARTS) return {};
    switch (type.kind) {
      case 'literal':
        return type.value === null ? { type: 'null' } : { type: typeof type.value, enum: [type.value] };
      case 'list':
        return withInner({ type: 'array' }, 'items', this.#schema(type.of, within));
      case 'tuple':
        return this.#tupleSchema(type.of, within);
      case 'object':
        return this.#objectSchema(type, within);
      case 'union':
        return this.#unionSchema(type.of, within);
      case 'intersection':
        return merged(type.of.map((each) => this.#schema(each, within)));
      case 'named':
        return this.#namedSchema(type.name, type.of, within);
      default:
        return {};
    }
  }

  #tupleSchema(of: { type: Type; optional: boolean; rest: boolean }[], within: Set<string>): Schema {
    if (of.some(({ rest }) => rest)) return { type: 'array' };
    if (of.length === 0) return { type: 'array', maxItems: 0 };
    const prefixItems = of.map(({ type }) => this.#schema(type, within));
    return { type: 'array', prefixItems, minItems: of.filter(({ optional }) => !optional).length, maxItems: of.length };
  }

  #objectSchema({ members, others, bases }: Type & { kind: 'object' }, within: Set<string>): Schema {
    const own: Schema = { type: 'object' };
    const kept = members.filter(({ type }) => type.kind !== 'function');
    if (kept.length > 0) {
      const read = kept.map((member) => ({ ...member, schema: this.#schema(member.type, within) }));
      own.properties = Object.fromEntries(
        read.map(({ name, schema, description }) => [name, description ? { ...schema, description } : schema]),
      );
      const isRequired = ({ type, optional, schema }: Member & { schema: Schema }) =>
        !optional && !this.#mayBeUndefined(type) && !this.#mayBeMissing(schema);
      const required = read.filter(isRequired).map(({ name }) => name);
      if (required.length > 0) own.required = required;
    }
    if (others) Object.assign(own, withInner({}, 'additionalProperties', this.#schema(others, within)));
    return bases.length > 0 ? merged([...bases.map((base) => this.#schema(base, within)), own]) : own;
  }

  /** Tells whether a result may be undefined for all that is known of it: JSON leaves such a member out. */
  #mayBeMissing(schema: Schema): boolean {
    return this.#isOutput && Object.keys(schema).length === 0;
  }

  #mayBeUndefined(type: Type, within: string[] = []): boolean {
    if (type.kind === 'union') return type.of.some((each) => this.#mayBeUndefined(each, within));
    const declared = type.kind === 'named' && !within.includes(type.name) && this.#types.get(type.name);
    return declared ? this.#mayBeUndefined(declared, [...within, type.name]) : isNothing(type);
  }

  #unionSchema(of: Type[], within: Set<string>): Schema {
    const found: Schema[] = [];
    for (const each of of.filter((type) => !isNothing(type))) {
      const schema = this.#schema(each, within);
      if (Object.keys(schema).length === 0) return {};
      for (const one of schema.anyOf ?? [schema]) {
        const alike = one.enum && found.find((other) => other.enum && other.type === one.type);
        if (alike) alike.enum = [...new Set([...alike.enum, ...one.enum])];
        else if (!found.some((other) => isSame(other, one))) found.push({ ...one });
      }
    }
    const both = found.find((each) => each.type === 'boolean' && each.enum?.length === 2);
    if (both) delete both.enum;
    return found.length > 1 ? { anyOf: found } : (found[0] ?? {});
  }

  #namedSchema(name: string, of: Type[], within: Set<string>): Schema {
    const declared = this.#types.get(name);
    if (declared) return within.has(name) ? {} : this.#schema(declared, new Set([...within, name]));
    const first = () => this.#schema(of[0] ?? UNKNOWN, within);
    switch (name) {
      case 'string':
      case 'number':
      case 'boolean':
      case 'object':
        return { type: name };
      case 'Date':
        return { type: 'string', format: 'date-time' };
      case 'Array':
      case 'ReadonlyArray':
        return withInner({ type: 'array' }, 'items', first());
      case 'Record':
        return this.#recordSchema(of, within);
      case 'Partial': {
        const { required: _, ...others } = first();
        return others;
      }
      case 'Required': {
        const schema = first();
        if (!schema.properties) return schema;
        const there = Object.keys(schema.properties).filter((key) => !this.#mayBeMissing(schema.properties[key]));
        return { ...schema, ...(there.length > 0 && { required: there }) };
      }
      case 'Pick':
      case 'Omit':
        return this.#picked(first(), this.#schema(of[1] ?? UNKNOWN, within).enum, name === 'Pick');
      case 'Readonly':
      case 'NonNullable':
      case 'Awaited':
      case 'Promise':
        return first();
      default:
        return {};
    }
  }

  #recordSchema([keys, values]: Type[], within: Set<string>): Schema {
    const names: string[] | undefined = keys && this.#schema(keys, within).enum;
    const schema = this.#schema(values ?? UNKNOWN, within);
    if (!names) return withInner({ type: 'object' }, 'additionalProperties', schema);
    const properties = Object.fromEntries(names.map((name) => [name, schema]));
    const mayBeMissing = this.#mayBeUndefined(values ?? UNKNOWN) || this.#mayBeMissing(schema);
    return { type: 'object', properties, ...(!mayBeMissing && { required: names }) };
  }

  #picked(schema: Schema, names: unknown[] | undefined, isKept: boolean): Schema {
    if (!schema.properties || !names) return { type: 'object' };
    const stays = (name: string) => names.includes(name) === isKept;
    const properties = Object.fromEntries(Object.entries(schema.properties).filter(([name]) => stays(name)));
    return { ...schema, properties, ...(schema.required && { required: schema.required.filter(stays) }) };
  }
}

const withInner = (schema: Schema, key: string, inner: Schema): Schema =>
  Object.keys(inner).length > 0 ? { ...schema, [key]: inner } : schema;

const isNothing = (type: Type): boolean => type.kind === 'named' && ['undefined', 'void', 'never'].includes(type.name);

/** Returns what meets all schemas, if they are objects. */
function merged(schemas: Schema[]): Schema {
  const saying = schemas.filter((schema) => Object.keys(schema).length > 0);
  if (saying.length < 2) return saying[0] ?? {};
  if (saying.some(({ type }) => type !== 'object')) return {};
  const properties = Object.assign({}, ...saying.map((schema) => schema.properties));
  const required = [...new Set(saying.flatMap((schema) => schema.required ?? []))];
  const found: Schema = Object.assign({}, ...saying);
  if (Object.keys(properties).length > 0) found.properties = properties;
  if (required.length > 0) found.required = required;
  return found;
}

function numberOf(text: string, isNegative: boolean): Type {
  const value = Number(text.replaceAll('_', ''));
  return Number.isFinite(value) ? { kind: 'literal', value: isNegative ? -value : value } : UNKNOWN;
}

function textOf(quoted: string): string {
  const inner = quoted.slice(1, -1);
  return inner.replace(/\\(?:u\{(\w+)\}|u(\w{4})|x(\w{2})|([\s\S]))/g, (_, braced, four, two, plain) => {
    const code = Number.parseInt(braced ?? four ?? two ?? '', 16);
    if (plain === undefined) return code <= 0x10ffff ? String.fromCodePoint(code) : '';
    return { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', 0: '\0', '\n': '' }[plain as string] ?? plain;
  });
}

function descriptionOf(comment: string): string {
  const lines = comment.slice(3, -2).split('\n').map((line) => line.replace(/^\s*\*? ?/, '').trimEnd());
  return lines.join('\n').trim();
}

// --- Imports ---------------------------------------------------------------------------------------------------------

const MODULE =
  /^(?:(?:file:\/\/)?\/workspace|\.\.?(?:\/\.\.?)*)\/(servers|skills)(?:\/([\w$-]+))?(?:\/([\w$-]+))?(?:\.[mc]?[jt]s)?$/;

type Module = { server: string; tool: string | undefined };

/** Names the tools and skills that the code imports; with null for a server whose tools cannot be told. */
function importsOf({ body }: Source): Import[] {
  const found = new Map<string, Import>();
  const modules = new Map<string, Module>(); // by the name that the code has for it
  const told = new Set<Node>();
  const add = ({ server, tool }: Module, name?: string | null) => {
    const called = tool ?? name ?? null;
    if (!called?.startsWith('_')) found.set(`${server}/${called}`, [server, called]);
  };
  const addPattern = (module: Module, pattern: Node): void => {
    for (const { key } of pattern.properties) add(module, key?.name ?? key?.value);
  };
  for (const node of walk(...body)) {
    const module = moduleOf(node.source);
    if (/^(?:Import|Export(?:Named|All))Declaration$/.test(node.type) && module) {
      for (const specifier of node.specifiers ?? []) {
        const isExport = specifier.type === 'ExportSpecifier';
        const name: string | undefined = (isExport ? specifier.local : specifier.imported)?.name;
        if (specifier.type === 'ImportNamespaceSpecifier') modules.set(specifier.local.name, module);
        add(module, name);
      }
      if (!node.specifiers?.length) add(module);
    }
    if (node.type === 'VariableDeclarator') {
      const imported = dynamicImport(node.init);
      if (!imported) continue;
      if (node.id.type === 'ObjectPattern') addPattern(imported.module, node.id);
      else if (node.id.type === 'Identifier') {
        modules.set(node.id.name, imported.module);
        add(imported.module);
      } else continue;
      told.add(imported.node);
    } else if (node.type === 'MemberExpression') {
      const imported = dynamicImport(node.object);
      if (!imported || imported.node.type !== 'ImportExpression' || node.object.type !== 'AwaitExpression') continue;
      add(imported.module, nameOfMember(node));
      told.add(imported.node);
    } else if (!told.has(node)) {
      const imported = dynamicImport(node);
      if (imported && imported.node === node) add(imported.module);
    }
  }
  for (const node of walk(...body)) {
    const [object, pattern] = node.type === 'MemberExpression' ? [node.object] : [node.init, node.id];
    const module = object?.type === 'Identifier' ? modules.get(object.name) : undefined;
    if (!module) continue;
    if (node.type === 'MemberExpression') add(module, nameOfMember(node));
    else if (node.type === 'VariableDeclarator' && pattern.type === 'ObjectPattern') addPattern(module, pattern);
  }
  const all = [...found.values()];
  const servers = new Set(all.filter(([, tool]) => tool !== null).map(([server]) => server));
  return all.filter(([server, tool]) => tool !== null || !servers.has(server));
}

/** Returns what `import('…')` or `require('…')`, awaited or not, takes from the servers or the skills. */
function dynamicImport(node?: Node | null): { node: Node; module: Module } | undefined {
  if (!node) return undefined;
  if (node.type === 'AwaitExpression') return dynamicImport(node.argument);
  const isRequire = node.type === 'CallExpression' && node.callee.name === 'require';
  const specifier = isRequire ? node.arguments[0] : node.type === 'ImportExpression' ? node.source : undefined;
  const module = moduleOf(specifier);
  return module && { node, module };
}

function moduleOf(specifier?: Node | null): Module | undefined {
  const text = specifier?.type === 'TemplateLiteral' ? specifier.quasis[0].value.cooked : specifier?.value;
  if (typeof text !== 'string' || (specifier?.expressions?.length ?? 0) > 0) return undefined;
  const parts = MODULE.exec(text);
  if (!parts) return undefined;
  const [server, tool] = parts[1] === 'skills' ? ['skills', parts[2]] : [parts[2], parts[3]];
  if (!server || server === 'index' || CLIENT_LIBRARY.has(server) || server.startsWith('_')) return undefined;
  return { server, tool: tool === 'index' ? undefined : tool };
}

// --- The answer ------------------------------------------------------------------------------------------------------

function examine({ code, parameters }: { code: string; parameters?: string[] | null }): object {
  try {
    const source = new Source(code.replace(/^\ufeff/, ''));
    const main = exported(source);
    const asFunction = () => new Program(source).asFunction(parameters ?? []);
    const found = main ? examineFunction(source, main.run, main.added) : asFunction();
    return { ok: true, ...found, imports: importsOf(source) };
  } catch (error) {
    if (error instanceof Problem) return { ok: false, problem: error.message };
    if (error instanceof RangeError) return { ok: false, problem: TOO_DEEP }; // the stack is too small for it
    throw error;
  }
}

if (process.argv[2] === INSIDE) {
  process.stdout.write(`${JSON.stringify(examine(JSON.parse(readFileSync(REQUEST, 'utf8'))))}\n`);
} else {
  const warnings = ['ExperimentalWarning', 'MODULE_TYPELESS_PACKAGE_JSON'].map((name) => `--disable-warning=${name}`);
  const options = ['--expose-internals', '--max-old-space-size=512', ...warnings, import.meta.filename, INSIDE];
  const limits = { timeout: EXAMINATION_TIMEOUT_MS, maxBuffer: MAX_ANSWER_BYTES };
  const { status, stdout, stderr } = spawnSync(process.execPath, options, { ...limits, encoding: 'utf8' });
  process.stderr.write(stderr ?? '');
  process.stdout.write(status === 0 ? stdout : `${JSON.stringify({ ok: false, problem: TOO_DEEP })}\n`);
}
