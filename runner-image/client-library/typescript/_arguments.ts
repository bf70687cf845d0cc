// Checks arguments before they are sent. Only what is certainly wrong is refused.

import { InvalidArguments } from './errors.js';

/** A small subset of JSON Schema. */
export type Rule = {
  type?: string;
  enum?: unknown[];
  anyOf?: Rule[];
  items?: Rule;
  properties?: { [name: string]: Rule };
  required?: string[];
  additionalProperties?: boolean;
};

export type Tool = { server: string; name: string; signature: string; rule: Rule };

type Json = { [name: string]: unknown };

/** The arguments as JSON text. */
export function checkedArguments(tool: Tool, args: unknown): string {
  const given = args ?? {};
  const found = kindOf(given) === 'object' ? problems(tool.rule, given, '') : ['the arguments must be one object'];
  if (found.length > 0) throw invalid(tool, found.join('; '));
  try {
    return JSON.stringify(given);
  } catch (error) {
    throw invalid(tool, `the arguments cannot be written as JSON: ${(error as Error).message}`);
  }
}

function invalid(tool: Tool, message: string): InvalidArguments {
  const about = { server: tool.server, tool: tool.name, code: 'invalid_arguments', hint: `Usage: ${tool.signature}` };
  return new InvalidArguments(message, about);
}

function problems(rule: Rule, value: unknown, path: string): string[] {
  // A Date, for example: what it becomes is its own affair.
  if (typeof (value as { toJSON?: unknown } | null)?.toJSON === 'function') return [];
  if (rule.anyOf) return anyOfProblems(rule.anyOf, value, path);
  if (rule.enum) return rule.enum.includes(value) ? [] : [mustBe(expected(rule), value, path)];
  if (rule.type && !fits(rule.type, value)) return [mustBe(expected(rule), value, path)];
  if (Array.isArray(value)) return itemProblems(rule.items ?? {}, value, path);
  return rule.properties ? objectProblems(rule, rule.properties, value as Json, path) : [];
}

function anyOfProblems(options: Rule[], value: unknown, path: string): string[] {
  const fit = options.some((option) => problems(option, value, path).length === 0);
  return fit ? [] : [mustBe(expected({ anyOf: options }), value, path)];
}

function itemProblems(rule: Rule, items: unknown[], path: string): string[] {
  for (const [index, item] of items.entries()) {
    const found = problems(rule, item, `${path}[${index}]`);
    if (found.length > 0) return found;
  }
  return [];
}

function objectProblems(rule: Rule, properties: { [name: string]: Rule }, value: Json, path: string): string[] {
  const names = Object.keys(value).filter((name) => value[name] !== undefined);
  const missing = (rule.required ?? []).filter((name) => !names.includes(name));
  return [
    ...missing.map((name) => `'${inside(path, name)}' is missing`),
    ...names.flatMap((name) =>
      Object.hasOwn(properties, name)
        ? problems(properties[name] ?? {}, value[name], inside(path, name))
        : unknownProblems(rule, name, names, path),
    ),
  ];
}

function unknownProblems(rule: Rule, name: string, names: string[], path: string): string[] {
  if (rule.additionalProperties === true) return [];
  const free = Object.keys(rule.properties ?? {}).filter((candidate) => !names.includes(candidate));
  const meant = free.find((candidate) => isTypo(name, candidate));
  if (meant === undefined && rule.additionalProperties !== false) return [];
  return [`'${inside(path, name)}' is not known${meant === undefined ? '' : `, did you mean '${meant}'?`}`];
}

const inside = (path: string, name: string): string => (path ? `${path}.${name}` : name);

const mustBe = (what: string, value: unknown, path: string): string => `'${path}' must be ${what}, not ${shown(value)}`;

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function fits(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value);
  return type === 'number' ? Number.isFinite(value) : kindOf(value) === type;
}

function expected(rule: Rule): string {
  if (rule.anyOf) return rule.anyOf.map(expected).join(' or ');
  return rule.enum ? `one of ${rule.enum.map((value) => JSON.stringify(value)).join(', ')}` : `of type ${rule.type}`;
}

function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null) return `an ${kindOf(value)}`;
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_ ]/g, '');

function isTypo(name: string, candidate: string): boolean {
  const [first, second] = [plain(name), plain(candidate)];
  if (first === second) return true;
  const allowed = Math.min(first.length, second.length) >= 8 ? 2 : 1;
  return Math.min(first.length, second.length) >= 4 && distance(first, second) <= allowed;
}

/** How many characters have to be inserted, removed, replaced or swapped with their neighbour. */
function distance(first: string, second: string): number {
  if (Math.abs(first.length - second.length) > 2) return 3;
  const rows = [Array.from({ length: second.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= first.length; row++) {
    const current = [row];
    for (let column = 1; column <= second.length; column++) {
      current.push(nextDistance(rows, current, first, second, row, column));
    }
    rows.push(current);
  }
  return rows[first.length]?.[second.length] ?? 0;
}

function nextDistance(
  rows: number[][], current: number[], first: string, second: string, row: number, column: number,
): number {
  const at = (upwards: number, back: number): number => (rows[row - upwards] ?? current)[column - back] ?? 0;
  const same = first[row - 1] === second[column - 1];
  const best = Math.min(at(1, 0) + 1, (current[column - 1] ?? 0) + 1, at(1, 1) + (same ? 0 : 1));
  const swapped = row > 1 && column > 1 && first[row - 1] === second[column - 2] && first[row - 2] === second[column - 1];
  return swapped ? Math.min(best, at(2, 2) + 1) : best;
}
